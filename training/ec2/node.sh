# The rest makes an instance of EC2 a node of a gang. cloud-init runs it as root, once, at the instance's first boot. Where the agent
# ends, or cannot be started, the instance shuts itself down, which terminates it.
set -eu
umask 077
imds=${SLUICE_IMDS:-http://169.254.169.254}
console=${SLUICE_CONSOLE:-/dev/console}
run=${SLUICE_RUN:-/run/sluice} # is memory
home=${SLUICE_HOME:-/var/lib/sluice}
disk=${SLUICE_DISK:-/opt/dlami/nvme} # the instance's own, where AWS's Deep Learning images mount it
if [ -d "$disk" ]; then
    home=$disk/sluice
fi

# cloud-init waits for this script, and other parts of the boot for cloud-init.
if [ "${1-}" != node ]; then
    setsid sh "$0" node </dev/null >/dev/null 2>&1 &
    exit
fi

# The output of the console can be read when the instance is gone.
say() { echo "sluice-node: $*" >>"$console" 2>/dev/null || :; }
fail() {
    say "$*"
    exit 1
}
trap 'shutdown -h now' EXIT
trap 'exit 1' INT TERM

# fetch ADDRESS SHA256 FILE. The address is as good as what it leads to, so it is no argument that others could see.
fetch() {
    name=$(basename "$3")
    printf 'url = "%s"\n' "$1" | curl -K - -fsSL --retry 5 --retry-connrefused --connect-timeout 10 --max-time 900 -o "$3" ||
        fail "cannot fetch its $name from the store"
    echo "$2  $3" | sha256sum -c --status || fail "its $name was changed on the way"
}

about() { curl -fsS --max-time 5 -H "X-aws-ec2-metadata-token: $session" "$imds/latest/meta-data/$1"; }

mkdir -p "$run" "$home/node" "$home/logs"
# /run may forbid programs, and a disk keeps secrets.
fetch "$config_url" "$config_sha256" "$run/config"
fetch "$agent_url" "$agent_sha256" "$home/agent"
chmod 755 "$home/agent"
. "$run/config"
names=$(sed -n 's/^export \([A-Z0-9_]*\)=.*/\1/p' "$run/config")
rm "$run/config"

session=$(curl -fsS --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$imds/latest/api/token") ||
    fail "the instance metadata service does not answer"
SLUICE_NODE_QUEUE=$queue$(about instance-id)
SLUICE_NODE_HOST=$(about local-ipv4)
SLUICE_NODE_CPUS=$(nproc)
SLUICE_NODE_DIR=$home/node
SLUICE_LOG_DIR=$home/logs
SLUICE_IMDS=$imds
SLUICE_CODEC_KEYS=
if [ -n "${codec_keys-}" ]; then
    printf '%s' "$codec_keys" >"$run/codec-keys"
    SLUICE_CODEC_KEYS=$run/codec-keys
fi
export SLUICE_NODE_QUEUE SLUICE_NODE_HOST SLUICE_NODE_CPUS SLUICE_NODE_DIR SLUICE_LOG_DIR SLUICE_IMDS SLUICE_CODEC_KEYS

# log_in gives docker what it needs to pull the image: the logins of the environment, and for Amazon ECR that of the instance's role. They
# are in memory, and gone before the image runs.
log_in() {
    registry=${image%%/*}
    case $registry in
    *.dkr.ecr*.amazonaws.com | *.dkr.ecr*.amazonaws.com.cn) ;;
    *) registry= ;;
    esac
    [ -n "$registry${docker_config-}" ] || return 0 # the machine's own logins may do
    export DOCKER_CONFIG="$run/docker"
    mkdir -p "$DOCKER_CONFIG"
    [ -z "${docker_config-}" ] || printf '%s' "$docker_config" >"$DOCKER_CONFIG/config.json"
    [ -n "$registry" ] || return 0
    password=$("$home/agent" ecr-password "$registry" 2>"$run/said") ||
        fail "cannot pull the image $image: no login to $registry: $(tail -n 1 "$run/said")"
    said=$(printf '%s' "$password" | docker login --username AWS --password-stdin "$registry" 2>&1) ||
        fail "cannot pull the image $image: $(echo "$said" | tail -n 1)"
    unset password
}

# in_container runs the agent in the image, where its ranks find their programs, and all of the machine. The image's user may be any: what
# it needs is open to all users in the container, but on the machine in folders that are only root's.
in_container() {
    log_in
    said=$(timeout 1200 docker pull -q "$image" 2>&1) || fail "cannot pull the image $image: $(echo "$said" | tail -n 1)"
    rm -rf "$run/docker"
    unset DOCKER_CONFIG
    chmod 777 "$home/node" "$home/logs"
    set -- --rm --name sluice-node --network host --ulimit memlock=-1 --entrypoint "$home/agent" \
        -v "$home/agent:$home/agent:ro" -v "$home/node:$home/node" -v "$home/logs:$home/logs"
    if [ -n "$SLUICE_CODEC_KEYS" ]; then
        chmod 444 "$SLUICE_CODEC_KEYS"
        set -- "$@" -v "$SLUICE_CODEC_KEYS:$SLUICE_CODEC_KEYS:ro"
    fi
    for name in $names; do
        set -- "$@" -e "$name"
    done
    [ -z "$shm" ] || set -- "$@" --shm-size "$shm"
    if nvidia-smi -L >/dev/null 2>&1; then
        set -- "$@" --gpus all
    fi
    certificates=/etc/ssl/certs/ca-certificates.crt # images need not have any
    if [ -f "$certificates" ]; then
        set -- "$@" -v "$certificates:/etc/sluice-ca.crt:ro" -e SSL_CERT_FILE=/etc/sluice-ca.crt
    fi
    docker run "$@" "$image"
}

code=0
if [ -n "$image" ]; then
    in_container >"$home/agent.log" 2>&1 || code=$?
else
    "$home/agent" >"$home/agent.log" 2>&1 || code=$?
fi
fail "its agent ended with code $code: $(tail -n 1 "$home/agent.log")"
