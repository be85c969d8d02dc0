# shellcheck shell=sh
# shellcheck disable=SC2034 # SUMS, TOOK: for the scripts
# nvmet.sh - the kernel's NVMe-oF target in the guest, over tcp on loopback, and the host's side that connects to it.

NVMET=/sys/kernel/config/nvmet

# nvmet_up: modules of both sides.
nvmet_up() {
	modprobe -a loop ext4 nvmet nvmet-tcp nvme-tcp || return
	[ -d $NVMET ] || mount -t configfs none /sys/kernel/config
}

# nvmet_subsystem NQN [IMAGE...]: its namespaces are 1, 2, ...; anybody may connect.
nvmet_subsystem() {
	nvmet_dir=$NVMET/subsystems/$1 nvmet_nsid=0
	shift
	mkdir "$nvmet_dir" && echo 1 >"$nvmet_dir/attr_allow_any_host" || return
	for image; do
		nvmet_nsid=$((nvmet_nsid + 1))
		nvmet_loop=$(losetup --find --show "$image") && mkdir "$nvmet_dir/namespaces/$nvmet_nsid" || return
		echo "$nvmet_loop" >"$nvmet_dir/namespaces/$nvmet_nsid/device_path"
		echo 1 >"$nvmet_dir/namespaces/$nvmet_nsid/enable" || return
	done
}
# nvmet_serve NQN PORT: where it can be found, from now on. nvmet_hide NQN PORT: no longer; its connections are lost, and with the last
# subsystem of a port nobody listens there.
nvmet_serve() {
	if [ ! -d "$NVMET/ports/$2" ]; then
		mkdir "$NVMET/ports/$2" || return
		echo tcp >"$NVMET/ports/$2/addr_trtype"
		echo ipv4 >"$NVMET/ports/$2/addr_adrfam"
		echo 127.0.0.1 >"$NVMET/ports/$2/addr_traddr"
		echo "$2" >"$NVMET/ports/$2/addr_trsvcid"
	fi
	ln -s "$NVMET/subsystems/$1" "$NVMET/ports/$2/subsystems/$1"
}
nvmet_hide() { rm "$NVMET/ports/$2/subsystems/$1"; }
# nvmet_remove NQN: for good; it is hidden already.
nvmet_remove() {
	for nvmet_ns in "$NVMET/subsystems/$1"/namespaces/*; do
		[ -d "$nvmet_ns" ] || continue
		echo 0 >"$nvmet_ns/enable"
		losetup -d "$(cat "$nvmet_ns/device_path")"
		rmdir "$nvmet_ns" || return
	done
	rmdir "$NVMET/subsystems/$1"
}

# controllers: the connections that this host has, a name each; and whether there are any.
controllers() {
	for controller in /sys/class/nvme/nvme*; do
		[ ! -e "$controller" ] || echo "${controller##*/}"
	done
}
# Not that of a discovery, which comes and goes.
some_controller() { cat /sys/class/nvme/nvme*/subsysnqn 2>/dev/null | grep -qv discovery; }
# controller_state STATE: the only one is that.
controller_state() {
	read -r state <"/sys/class/nvme/$(controllers)/state" && [ "$state" = "$1" ]
}

# ---- a segment of two files, of a storage host; clients are other hosts by name only ------------------------------------------------

NQN=nqn.2024-01.org.example:te
PORT=4420
MNT=/mnt/te/disk0
SIZE_A=3145728 SIZE_B=1052160 # 1 MiB + 3.5 KiB

# storage_up: a metadata server, a file system with /srv/a and /srv/b, registered there as nvmeof/disk0 and then served.
storage_up() {
	MC_METADATA_SERVER=http://127.0.0.1:8080/metadata
	export MC_METADATA_SERVER
	start meta te-http-meta --listen=127.0.0.1:8080 --ready-file="$T/meta.ready" && within 20 test -s "$T/meta.ready" || return
	truncate -s 64M "$T/image" && mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$T/image" && mkdir -p /srv && mount -o loop "$T/image" /srv || return
	head -c $SIZE_A /dev/urandom >/srv/a && head -c $SIZE_B /dev/urandom >/srv/b || return
	mkdir /srv/deep && head -c 4096 /dev/zero >/srv/deep/c && ln -s /etc/passwd /srv/out || return
	SUMS="$(sum /srv/a) $(sum /srv/b)"
	te-register --local-server-name=storage nvmeof disk0 /srv/a /srv/b || return
	# The rest of the guest knows /srv as an empty folder: a real client's has nothing of the target's either.
	umount /srv && nvmet_subsystem $NQN "$T/image" && nvmet_serve $NQN $PORT
}
sum() { cksum <"$1"; }
storage_down() { nvmet_hide $NQN $PORT; nvmet_remove $NQN && stop meta; }

# connect [OPTION...] WORD...: te-mount --connect as host client, with the target above. both: both files.
connect() {
	te-mount --local-server-name=client --connect --transport=tcp --traddr=127.0.0.1 --trsvcid=$PORT --nqn=$NQN "$@"
}
both() { connect disk0 /srv/a /srv/b $MNT; }
unmount() { te-mount --local-server-name=client --unmount "$@"; }
status() { te-mount --local-server-name=client status disk0; }

# disk0: its descriptor. (A tenth of te-meta's time here.)
disk0() { busybox wget -q -O - 'http://127.0.0.1:8080/metadata?key=mooncake/nvmeof/disk0'; }
# clean: nothing of te-mount's is on this host, nor of client in the store.
clean() {
	if [ -n "$(controllers)" ] || grep ' /mnt/te' /proc/self/mounts || [ -e /mnt/te ] || [ -e /run/te/mounts.json ] ||
		disk0 | grep client; then
		controllers
		ls -d /mnt/te /run/te/*
		return 1
	fi
}
# mapped: client's paths of disk0, as the store has them.
mapped() { disk0 | grep -o '"client":"[^"]*"' | cut -d'"' -f4 | tr '\n' ' '; }

# says TEXT COMMAND...: it fails with 1, and says so on one line. prints TEXT COMMAND...: it succeeds, and says that.
says() {
	says_text=$1 says_rc=0
	shift
	"$@" >"$T/said.out" 2>"$T/said" || says_rc=$?
	if [ "$(wc -l <"$T/said")" != 1 ] || [ $says_rc != 1 ] || [ -s "$T/said.out" ] || ! grep -qE -- "$says_text" "$T/said"; then
		echo "status $says_rc: $(cat "$T/said" "$T/said.out")"
		return 1
	fi
}
prints() {
	prints_text=$1
	shift
	if ! "$@" >"$T/printed" 2>&1 || ! grep -qE -- "$prints_text" "$T/printed"; then
		cat "$T/printed"
		return 1
	fi
}
# timed COMMAND...: its status; how long it took, in seconds, is in $TOOK.
timed() {
	now_ms
	timed_from=$NOW timed_rc=0
	"$@" || timed_rc=$?
	now_ms
	TOOK=$(((NOW - timed_from + 500) / 1000))
	return $timed_rc
}
