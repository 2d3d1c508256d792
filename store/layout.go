package store

// The layout of a store: the prefix of every key, and what is stored under it. No other package spells out a prefix (TestOneLayout checks
// this); packages build their keys from these. Stores outlive versions of Sluice, so a prefix never changes.
const (
	blobsPrefix    = "blobs/"    // <hh>/<sha256>: file contents, manifests and large values, by digest
	PayloadsPrefix = "payloads/" // <sha256>.json: a blob that Temporal refers to
	PartsPrefix    = "parts/"    // <name>/: a store within the store (Store.Part), such as the files of a checkpoint

	RunsPrefix         = "runs/"         // <run>/run.json: the record of a run; <run>/steps/<step>.json: that of a step
	InstancesPrefix    = "instances/"    // <run>/<step>/<index>.json: the record of an instance of a step
	OpenPrefix         = "open/"         // <sha256>/<number>.json: the runs of a submission; the newest may still be open
	AcceptancesPrefix  = "acceptances/"  // <pipeline>/<time>/<run>.json: an accepted run of a pipeline; the newest is the last
	CachePrefix        = "cache/"        // <hh>/<key>.json: the step or instance whose result has a cache key
	FingerprintsPrefix = "fingerprints/" // salt.json: the salt of the store's fingerprints of secrets

	RegistryPrefix = "registry/" // <type>/<name>/<run>-<step>.json: a published version of a dataset or model
	HistoryPrefix  = "history/"  // <type>/<name>/<number>.json: the changes of a name's current version; the last one is in effect
	TagsPrefix     = "tags/"     // <type>/<name>/<tag>.json: a tag that a person gave to a version

	AppliedPrefix  = "applied/"  // <home>/<pipeline>/<trigger>.json: a trigger as it was last applied
	TriggersPrefix = "triggers/" // <pipeline>/<trigger>.json: what a trigger has seen; <pipeline>/<trigger>/<time>.json: a run that gave way

	CheckpointsPrefix = "checkpoints/" // <run>/<step>/: commits, progress and seals of a training (training/checkpoint)
	HandoverPrefix    = "handover/"    // <run>/<step>/g<generation>/<try>: the configuration of a gang's agents while it starts
	PlacesPrefix      = "places/"      // ec2/<region>: where pools have started machines, to find those that are left over
	LogsPrefix        = "logs/"        // <run>/<step>/g<part>/n<node>/: the output of an attempt, or of a node of a generation (store/steplog)
	TimingsPrefix     = "timings/"     // <platform>.json: what TensorRT has measured on a platform

	RoutingPrefix   = "routing/"   // <target>/<revision>: the routing document of a serving target, every revision
	ReplicasPrefix  = "replicas/"  // <target>/<epoch>.json: the state and the counts that a gateway of a target reports
	ReleasesPrefix  = "releases/"  // <target>/<version>.json: how a rollout was decided
	SeatsPrefix     = "seats/"     // <target>/<version>.json: which of a target's servers a release has
	ServingPrefix   = "serving/"   // <store>/<target>/<version>/: a copy of a model for servers that read the bucket themselves
	reusedPrefix    = "reused/"    // <hh>/<sha256>: marks an old blob that was stored again, at the time of this object
	forgottenPrefix = "forgotten/" // <id>.json: the digests in removed records, which others may have read just before
	sweepKey        = "sweep.json" // identifies the sweep that is deleting blobs

	identityKey = "identity.json" // the store's ID (Store.Identity), if it has been needed
)
