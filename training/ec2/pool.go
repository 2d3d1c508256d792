// Package ec2 is a pool whose nodes are instances of Amazon EC2. A gang is what one fleet of type `instant` launches: all of it or
// nothing, in one zone and of one instance type. Each instance fetches the agent and its configuration from the store.
//
// The pool keeps no state of its own. Instances carry the gang's key in their tags, and the launch template that they come from, which
// is named after the key, stands for one try to start the gang: of workers that try at once one makes the template, and they all ask
// for the fleet with a token made of its ID, for which EC2 launches one fleet.
package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// lookEvery is how often a gang's instances are looked at. A call of DescribeInstances takes one of a hundred tokens, of which an
	// account gets twenty a second.
	lookEvery = 5 * time.Second
	// bootLimit is how long an instance may take from its launch to its agent's first word: boot, drivers, and the container image.
	bootLimit = spec.EC2Within
	// lendLife is how long what the instances fetch can be fetched. They fetch it first of all.
	lendLife = 15 * time.Minute
	// idleLimit is how long a node without anything to do lives on, when whoever would release it is gone.
	idleLimit = 15 * time.Minute
	// endLimit is how long a gang that did not start may take to be taken down.
	endLimit = 2 * time.Minute
	// attempts is how often the SDK makes a call that AWS throttles, or that fails on the way.
	attempts = 8
)

// Options configure a pool.
type Options struct {
	// Name of the pool. Its gangs' instances are counted by it.
	Name string
	// Spec says which instances.
	Spec spec.EC2Pool
	// Limits bound all gangs of the pool together.
	Limits spec.PoolLimits
	// Prices of an instance, where AWS's are not the ones that are paid.
	Prices spec.Prices
	// Depot hands the agent out.
	Depot *delivery.Depot
	// Agent is what all agents are told: Address, Namespace, Store, CodecKeys. The pool sets the rest.
	Agent protocol.AgentConfig
	// Environ is the environment of an agent on another machine that is told a config, with how it reaches Temporal where that has no token.
	Environ func(protocol.AgentConfig) ([]string, error)
	// Token makes the secret by which the agents of one workflow may poll queues with the prefix.
	Token func(queuePrefix, workflow string) string
	// Secret returns the value of a secret of the environment.
	Secret func(ctx context.Context, name string) (string, error)
	// Polls reports whether an agent serves a queue.
	Polls func(ctx context.Context, queue string) (bool, error)
	// Every is how often the gangs are looked at; 0 for the usual.
	Every time.Duration
}

// Pool implements training.Pool.
type Pool struct {
	opts Options
	api  *ec2.Client
	list *pricing.Client
	// listed are the prices of the list that were asked for, by instance type.
	listed sync.Map
	// launching lets this process launch one gang at a time, since each counts what there is.
	launching sync.Mutex
}

// New makes a pool. Credentials are found as AWS's own tools find them.
func New(ctx context.Context, o Options) (*Pool, error) {
	cfg, err := awsConfig(ctx, o.Spec.Region)
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", o.Name, err)
	}
	o.Every = cmp.Or(o.Every, lookEvery)
	list := pricing.NewFromConfig(cfg, func(o *pricing.Options) { o.Region = priceListRegion })
	return &Pool{opts: o, api: ec2.NewFromConfig(cfg), list: list}, nil
}

// awsConfig is that of a client in a region.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithRetryer(func() aws.Retryer {
		return retry.AddWithMaxAttempts(retry.NewStandard(), attempts)
	}))
	if err != nil {
		return cfg, fmt.Errorf("the AWS configuration cannot be used: %w", err)
	}
	return cfg, nil
}

// Acquire implements training.Pool. It returns when every instance's agent serves its queue.
func (p *Pool) Acquire(ctx context.Context, r training.Request) (training.Gang, error) {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	ids, err := p.launch(ctx, r)
	if err != nil {
		return training.Gang{}, err
	}
	instances, err := p.await(ctx, r.Key, ids)
	if err != nil {
		// Where only this worker ends, another one goes on with the gang.
		if errors.Is(ctx.Err(), context.Canceled) {
			return training.Gang{}, err
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		ended, failed := p.abandon(end, r.Key)
		return training.Gang{}, training.FailedStart(errors.Join(err, failed), ended...)
	}
	// Nobody has to read it any more, and no rank runs that could.
	if err := p.opts.Depot.Withdraw(ctx, r.Key); err != nil {
		return training.Gang{}, err
	}
	return p.gang(ctx, r.Key, instances), nil
}

// gang describes instances that run.
func (p *Pool) gang(ctx context.Context, key training.Key, instances []types.Instance) training.Gang {
	gang := training.Gang{Capacity: capacityOf(instances[0])}
	if price, err := p.price(ctx, instances[0]); err == nil { // a gang is not given up for that
		gang.USDPerHour = price
	}
	for i, instance := range instances {
		gang.Nodes = append(gang.Nodes, training.Node{
			Index: i, Name: fmt.Sprintf("%s (%s)", *instance.InstanceId, instance.InstanceType),
			Queue: queuePrefix(key) + *instance.InstanceId, Address: aws.ToString(instance.PrivateIpAddress),
			Type: string(instance.InstanceType), Zone: zoneOf(instance), BeganAt: aws.ToTime(instance.LaunchTime).UTC(),
		})
	}
	return gang
}

// queuePrefix is what the queues of a gang's instances begin with. The instance's ID, which follows, is never given out again, and
// is all that an instance must know to find its queue.
func queuePrefix(key training.Key) string {
	return fmt.Sprintf("%sg%d/", key.QueuePrefix(), key.Generation)
}

// Release implements training.Pool.
func (p *Pool) Release(ctx context.Context, key training.Key) ([]training.Gang, error) {
	ended, err := p.abandon(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", key, err)
	}
	return ended, nil
}

// abandon ends a gang, or a try to start one, and returns what EC2 still tells of all tries. The template goes first: without it nobody
// launches anything more.
func (p *Pool) abandon(ctx context.Context, key training.Key) ([]training.Gang, error) {
	launched, err := p.dropTemplate(ctx, key)
	if err != nil {
		return nil, err
	}
	ended, err := p.terminate(ctx, key, launched)
	return ended, errors.Join(err, p.opts.Depot.Withdraw(ctx, key))
}

// terminate ends the instances of a gang and waits until EC2 has taken them down. Instances may be seen a little after their launch
// only, so where there may be some they are looked for more than once.
func (p *Pool) terminate(ctx context.Context, key training.Key, launched bool) ([]training.Gang, error) {
	looks := 0
	ends := map[string]time.Time{}
	for range poll.Every(ctx, p.opts.Every) {
		instances, err := p.find(ctx, key)
		if err != nil {
			return nil, err
		}
		living := alive(instances)
		if len(living) == 0 && (len(instances) > 0 || !launched || looks == unseenLooks) {
			return p.ended(ctx, key, instances, ends), nil
		}
		looks++
		if len(living) > 0 {
			if _, err := p.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: idsOf(living)}); err != nil {
				return nil, explain("TerminateInstances", err)
			}
			for _, id := range idsOf(living) { // they are paid for no longer
				ends[id] = time.Now().UTC()
			}
		}
	}
	return nil, ctx.Err()
}

// pause waits for the time of the next look.
func (p *Pool) pause(ctx context.Context) error {
	select {
	case <-time.After(p.opts.Every):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// configure stores what the agents of a gang are told.
func (p *Pool) configure(ctx context.Context, r training.Request, try string) (delivery.Item, error) {
	c := p.opts.Agent
	c.Idle, c.Token = idleLimit, p.opts.Token(r.QueuePrefix(), r.Workflow)
	var keys []byte
	if c.CodecKeys != "" {
		var err error
		if keys, err = os.ReadFile(c.CodecKeys); err != nil {
			return delivery.Item{}, fmt.Errorf("the payload codec's keys: %w", err)
		}
	}
	environ, err := p.opts.Environ(c)
	if err != nil {
		return delivery.Item{}, err
	}
	logins, err := p.dockerConfig(ctx)
	if err != nil {
		return delivery.Item{}, err
	}
	return p.opts.Depot.Config(ctx, r.Key, try, configScript(environ, keys, logins), lendLife)
}
