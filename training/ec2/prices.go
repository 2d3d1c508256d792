package ec2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/smithy-go"

	"github.com/sluiceml/sluice/dsl/spec"
)

// priceListRegion is one of the few where AWS's price list answers, for all regions.
const priceListRegion = "us-east-1"

// price is what an instance costs an hour.
func (p *Pool) price(ctx context.Context, instance types.Instance) (float64, error) {
	zone := ""
	if instance.Placement != nil {
		zone = aws.ToString(instance.Placement.AvailabilityZone)
	}
	return p.priceOf(ctx, instance.InstanceType, capacityOf(instance), zone)
}

// priceOf is what the pool says an instance costs an hour, else what AWS says; of spot capacity now, in a zone or in the dearest one.
func (p *Pool) priceOf(ctx context.Context, kind types.InstanceType, capacity, zone string) (float64, error) {
	if price := p.opts.Prices.Of(capacity); price > 0 {
		return price, nil
	}
	var price float64
	var err error
	if capacity == spec.CapacitySpot {
		price, err = p.spotPrice(ctx, kind, zone)
	} else {
		price, err = p.listPrice(ctx, kind)
	}
	if err == nil && price == 0 {
		err = errors.New("AWS has no price")
	}
	if err != nil {
		return 0, fmt.Errorf("the price of %s as %s is not known: %w", kind, capacity, err)
	}
	return price, nil
}

func (p *Pool) spotPrice(ctx context.Context, kind types.InstanceType, zone string) (float64, error) {
	in := &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []types.InstanceType{kind}, ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		StartTime: aws.Time(time.Now()), // of which the answer is what holds since
	}
	if zone != "" {
		in.AvailabilityZone = &zone
	}
	out, err := p.api.DescribeSpotPriceHistory(ctx, in)
	if err != nil {
		return 0, explain("DescribeSpotPriceHistory", err)
	}
	var highest float64
	for _, s := range out.SpotPriceHistory {
		price, err := strconv.ParseFloat(aws.ToString(s.SpotPrice), 64)
		if err != nil {
			return 0, fmt.Errorf("AWS says %q", aws.ToString(s.SpotPrice))
		}
		highest = max(highest, price)
	}
	return highest, nil
}

// listPrice is the price of on-demand capacity in the pool's region, which is asked for once.
func (p *Pool) listPrice(ctx context.Context, kind types.InstanceType) (float64, error) {
	if known, ok := p.listed.Load(kind); ok {
		return known.(float64), nil
	}
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100)}
	for _, f := range [][2]string{
		{"instanceType", string(kind)},
		{"regionCode", p.opts.Spec.Region},
		{"operatingSystem", "Linux"},
		{"preInstalledSw", "NA"},
		{"tenancy", "Shared"},
		{"capacitystatus", "Used"},
	} {
		in.Filters = append(in.Filters, pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: &f[0], Value: &f[1]})
	}
	out, err := p.list.GetProducts(ctx, in)
	if answered, ok := errors.AsType[smithy.APIError](err); ok {
		return 0, fmt.Errorf("AWS's price list answered %s: %s (the permission is pricing:GetProducts)", answered.ErrorCode(), answered.ErrorMessage())
	}
	if err != nil {
		return 0, err
	}
	var highest float64
	for _, product := range out.PriceList {
		price, err := hourly(product)
		if err != nil {
			return 0, fmt.Errorf("AWS's price list cannot be read: %w", err)
		}
		highest = max(highest, price)
	}
	if highest > 0 {
		p.listed.Store(kind, highest)
	}
	return highest, nil
}

// hourly is the highest price of an hour among the on-demand terms of a product, as the price list has it.
func hourly(product string) (float64, error) {
	var listed struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string            `json:"unit"`
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			}
		} `json:"terms"`
	}
	if err := json.Unmarshal([]byte(product), &listed); err != nil {
		return 0, err
	}
	var highest float64
	for _, term := range listed.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			text, inDollars := dimension.PricePerUnit["USD"]
			if !inDollars || dimension.Unit != "Hrs" {
				continue
			}
			price, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			highest = max(highest, price)
		}
	}
	return highest, nil
}
