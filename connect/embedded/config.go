package embedded

import (
	"maps"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
)

const (
	clusterName = "active"
	storeName   = "sqlite"
)

// services are Temporal's services, all in this process. The server's own system workers use the internal frontend, so that the other one
// can require a token of every caller.
var services = []primitives.ServiceName{
	primitives.FrontendService, primitives.InternalFrontendService, primitives.HistoryService,
	primitives.MatchingService, primitives.WorkerService,
}

// dispatchRPS replaces limits (20 per second on one shard) that protect the tenants of a cluster from each other. Here they would only slow
// down the one user: a step of a chain takes 47 ms with them and 6 ms without.
const dispatchRPS = 10_000

// timerShift is how far the server reads timers ahead of its clock, and so how late a timer may fire that is set within that time. The
// default is a second, for clusters with clock skew. With that, a pause of 10 ms between two attempts would take a second.
const timerShift = 10 * time.Millisecond

// serverConfig is the static configuration: ports by service, one history shard, since SQLite has one writer, no archival, no
// metrics, no profiler.
func serverConfig(sql *config.SQL, ports map[primitives.ServiceName]int) *config.Config {
	c := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  storeName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{storeName: {SQL: sql}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             address(ports[primitives.FrontendService]),
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            make(map[string]config.Service, len(ports)),
	}
	c.Global.Membership.BroadcastAddress = loopback
	c.Archival.History.State = "disabled"
	c.Archival.Visibility.State = "disabled"
	c.NamespaceDefaults.Archival.History.State = "disabled"
	c.NamespaceDefaults.Archival.Visibility.State = "disabled"
	for name, port := range ports {
		c.Services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	return c
}

// staticHosts tells each service where the others are. In a cluster, gossip does this.
func staticHosts(ports map[primitives.ServiceName]int) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts, len(ports))
	for name, port := range ports {
		hosts[name] = static.SingleLocalHost(address(port))
	}
	return hosts
}

// Settings are dynamic configuration of the server, by name.
type Settings map[dynamicconfig.Key]any

// dynamicConfig returns the settings in which the server differs from one in a cluster. Those in others take precedence.
func dynamicConfig(others Settings) dynamicconfig.StaticClient {
	settings := dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   dispatchRPS,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      dispatchRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): dispatchRPS,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():   dispatchRPS,
		dynamicconfig.TimerProcessorMaxTimeShift.Key():    timerShift,

		// Partitions spread a task queue over machines. On a single machine they only forward tasks and polls to each other.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// There is no other cluster to replicate from.
		dynamicconfig.ReplicationProcessorSchedulerWorkerCount.Key():            1,
		dynamicconfig.ReplicationLowPriorityProcessorSchedulerWorkerCount.Key(): 1,

		// Otherwise each of the five services would keep the latencies of its last 5,000 database accesses, for a limit that is off and for a
		// cluster's health checks.
		dynamicconfig.PersistenceHealthSignalAggregationEnabled.Key(): false,

		// The UI and CLI of a single user may list as often as they like.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 1_000,

		// A cancel reaches a running activity in milliseconds instead of with its next heartbeat.
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,
		dynamicconfig.WorkerCommandsEnabled.Key():             true,
	}
	maps.Copy(settings, others)
	return settings
}
