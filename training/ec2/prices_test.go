package ec2

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/training"
)

// priceList plays AWS's price list for the rest of a test: it has one product for each instance type of the region that it knows, and
// refuses when it knows none.
func priceList(t *testing.T, prices map[string]string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Filters []struct{ Field, Value string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("X-Amz-Target") != "AWSPriceListService.GetProducts" {
			t.Errorf("asked for %s, %v", r.Header.Get("X-Amz-Target"), err)
		}
		if prices == nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type": "AccessDeniedException", "message": "not authorized"}`)
			return
		}
		values := map[string]string{}
		for _, f := range asked.Filters {
			values[f.Field] = f.Value
		}
		products := []string{}
		if price := prices[values["instanceType"]]; price != "" && values["regionCode"] == region && values["operatingSystem"] == "Linux" {
			products = append(products, fmt.Sprintf(`{"product": {"sku": "S"}, "serviceCode": "AmazonEC2", "terms": {
				"OnDemand": {"S.T": {"priceDimensions": {"S.T.R": {"unit": "Hrs", "pricePerUnit": {"USD": %q}}}}},
				"Reserved": {"S.U": {"priceDimensions": {"S.U.R": {"unit": "Quantity", "pricePerUnit": {"USD": "9999"}}}}}}}`, price))
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"FormatVersion": "aws_v1", "PriceList": products}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(web.Close)
	t.Setenv("AWS_ENDPOINT_URL_PRICING", web.URL)
}

func pricedPool(t *testing.T, prices map[string]string) *Pool {
	t.Helper()
	priceList(t, prices)
	s3test.Environment(t)
	p, err := New(t.Context(), Options{Name: "gpu", Spec: spec.EC2Pool{Region: region}, Limits: spec.PoolLimits{USDPerHour: 5}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestListPrice(t *testing.T) {
	p := pricedPool(t, map[string]string{"g5.2xlarge": "1.5150000000"})
	for range 2 {
		if price, err := p.priceOf(t.Context(), "g5.2xlarge", spec.CapacityOnDemand, ""); price != 1.515 || err != nil {
			t.Errorf("got %v, %v", price, err)
		}
	}
	for name, test := range map[string]struct {
		pool *Pool
		says string
	}{
		"not in the list": {p, "has no price"},
		"no permission":   {pricedPool(t, nil), "pricing:GetProducts"},
		"no number":       {pricedPool(t, map[string]string{"g6.2xlarge": "free"}), "cannot be read"},
	} {
		if price, err := test.pool.priceOf(t.Context(), "g6.2xlarge", spec.CapacityOnDemand, ""); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v, want an error that says %s", name, price, err, test.says)
		}
	}
}

// A limit on dollars holds nothing back whose price nobody knows.
func TestLimitWithoutPrice(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		priceList(t, nil)
		o.Limits = spec.PoolLimits{USDPerHour: 5}
	})
	r := request(1, 1, 1)
	r.Capacity = spec.CapacityOnDemand
	if _, err := w.Acquire(t.Context(), r); !errors.Is(err, training.ErrInvalid) || !strings.Contains(err.Error(), "usd_per_hour: {on_demand") {
		t.Errorf("Acquire: %v, want ErrInvalid that says what to write", err)
	}
}
