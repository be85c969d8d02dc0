#!/bin/sh
# mount.t - te-mount in the guest: what goes wrong leaves nothing, and what is not te-mount's stays.
. "$(dirname "$0")/lib/guest.sh"
nvmet_up || skip_all 'no NVMe-oF in this kernel'
ok 'two files are served' storage_up

refused() { # refused NAME TEXT COMMAND...: one clear error, and nothing is left
	refused_name=$1
	shift
	ok "$refused_name" says "$@"
	ok "$refused_name: nothing is left" clean
}
segment() { # segment NAME FILE...: registered by hand with 4096 bytes each, whether or not they are there
	segment_name=$1 segment_files=
	shift
	for file; do segment_files="$segment_files,{\"length\":4096,\"file_path\":\"$file\",\"local_path_map\":{}}"; done
	te-meta put "mooncake/nvmeof/$segment_name" "{\"server_name\":\"storage\",\"protocol\":\"nvmeof\",\"buffers\":[${segment_files#,}]}"
}
forget() { # what another program would do
	echo 1 >/sys/class/nvme/nvme0/delete_controller
}

# ---- errors -----------------------------------------------------------------------------------------------------------------

rm -rf /etc/nvme
ok '--dry-run' prints "would publish +/srv/b for client" connect --dry-run disk0 /srv/a /srv/b $MNT
ok '--dry-run: did nothing' clean
[ ! -e /etc/nvme ] || fail '--dry-run: not even a name for this host'

refused 'unknown segment' "no segment 'nvmeof/disk9'" connect disk9 /srv/a $MNT
refused 'unknown file' "no file '/srv/z'; it has /srv/a, /srv/b" connect disk0 /srv/z $MNT
segment disk1 /srv/a /srv/gone /srv/out /srv/x/deep/c
refused 'another length than registered' "'$MNT/a' has $SIZE_A bytes.*registered with 4096" connect disk1 /srv/a $MNT
ok 'this host has a name for good' grep -q '^nqn\.' /etc/nvme/hostnqn
ok 'and an id' grep -qE '^[0-9a-f-]{36}$' /etc/nvme/hostid
refused 'a file that is not there' "no file '/srv/gone' in $MNT" connect disk1 /srv/gone $MNT
refused 'a link that leads out' "leads out of '$MNT'" connect disk1 /srv/out $MNT
refused 'one of two files' "no file '/srv/gone'" connect disk1 /srv/x/deep/c /srv/gone $MNT
refused 'NQN that does not exist' "offers no 'nqn.x' to this host; it offers $NQN" connect --nqn=nqn.x disk0 /srv/a $MNT
refused 'nobody listens' 'port 4499: Connection refused' connect --trsvcid=4499 disk0 /srv/a $MNT
refused 'no route' '192.0.2.1, port 4420: Network is unreachable' connect --traddr=192.0.2.1 disk0 /srv/a $MNT
refused 'no such name' 'cannot resolve' connect --traddr=no.such.host.invalid disk0 /srv/a $MNT
refused 'not root' 'needs root' setpriv --reuid=65534 --clear-groups "$(command -v te-mount)" --connect --transport=tcp --traddr=127.0.0.1 \
	--nqn=$NQN disk0 /srv/a $MNT
refused 'a mount point below a file' "/etc/hosts/te': Not a directory" connect disk0 /srv/a /etc/hosts/te

modprobe dummy && ip link add hole type dummy && ip addr add 10.99.0.1/24 dev hole && ip link set hole up
refused 'a black hole' '10.99.0.2, port 4420: Connection timed out' timed connect --traddr=10.99.0.2 disk0 /srv/a $MNT
near 'a black hole: soon' "$TOOK" 0 $((20 * SLOW))
start deaf tests/lib/deaf.py accepts && within 20 test -s "$T/deaf.out"
refused 'somebody who says nothing' 'no answer in time from tcp 127.0.0.1' \
	timed connect --timeout=3 --trsvcid="$(cat "$T/deaf.out")" disk0 /srv/a $MNT
near 'somebody who says nothing: in time' "$TOOK" 2 $((12 * SLOW))
midway() { # midway SIGNAL CONDITION OPTION...: once the condition holds
	midway_signal=$1 midway_when=$2
	shift 2
	start midway te-mount -n client --connect --transport=tcp --traddr=127.0.0.1 "$@" disk0 /srv/a $MNT
	within 20 "$midway_when" && kill -"$midway_signal" "$(cat "$T/midway.pid")" && ended midway 10
}
is_waiting() { grep -q . "/proc/$(cat "$T/midway.pid")/task/$(cat "$T/midway.pid")/children"; }
ok 'interrupted' midway INT is_waiting --trsvcid="$(cat "$T/deaf.out")" --nqn=$NQN
is 'interrupted: says so, exit 1' "$ENDED $(cat "$T/midway.err")" '1 te-mount: interrupted'
ok 'interrupted: nothing is left' clean
stop deaf KILL

nvmet_subsystem nqn.empty && nvmet_serve nqn.empty $PORT
refused 'a device that never appears' "no block device of 'nqn.empty' \(nvme0\) has appeared.*no namespace" \
	timed connect --nqn=nqn.empty --timeout=3 disk0 /srv/a $MNT
near 'a device that never appears: in time' "$TOOK" 2 $((12 * SLOW))
ok 'killed while it waits' midway KILL some_controller --nqn=nqn.empty
is 'killed: it had a connection' "$(controllers)" nvme0
ok 'killed: --unmount knows of it' prints 'disconnect +nvme0' unmount disk0
ok 'killed: nothing is left' clean
nvmet_hide nqn.empty $PORT && nvmet_remove nqn.empty

truncate -s 8M "$T/blank" && cp --sparse=always "$T/image" "$T/image2"
nvmet_subsystem nqn.two "$T/blank" "$T/image2" && nvmet_serve nqn.two $PORT
refused 'several namespaces' 'several namespaces, 1, 2: choose' connect --nqn=nqn.two disk0 /srv/a $MNT
refused 'no such namespace' 'no namespace 7; it has 1, 2' connect --nqn=nqn.two --nsid=7 disk0 /srv/a $MNT
refused 'no file system' "no file system found on '/dev/nvme0n1': it has none" connect --nqn=nqn.two --nsid=1 disk0 /srv/a $MNT
ok 'the namespace that is asked for' connect --nqn=nqn.two --nsid=2 --read-only --options=dev --all disk0 $MNT
ok 'and its options' grep -q "^/dev/nvme0n2 $MNT ext4 ro,nosuid,noatime" /proc/self/mounts
ok 'a file system that was mounted so is well' status
ok 'unmount' unmount disk0
ok 'unmount: nothing is left' clean
nvmet_hide nqn.two $PORT && nvmet_remove nqn.two

# ---- what belongs to whom ---------------------------------------------------------------------------------------------------

echo "nqn=$NQN,transport=tcp,traddr=127.0.0.1,trsvcid=$PORT" >/dev/nvme-fabrics
ok 'a connection of somebody else is used' prints 'use +nvme0' both
ok 'and left alone' prints 'leave +nvme0: te-mount did not connect it' unmount disk0
is 'it is still there' "$(controllers)" nvme0
forget
ok 'nothing else is left' clean

mkdir -p $MNT && mount -t tmpfs none $MNT
ok 'a mount point that is taken' says "'$MNT' is taken: 'none' \(tmpfs" both
is 'no connection is left' "$(controllers)" ''
ok 'the mount is' grep -q " $MNT tmpfs" /proc/self/mounts
umount $MNT
ok 'a folder that was there' both
ok 'two mounts of one connection' connect disk0 /srv/a ${MNT}b
ok 'files go one by one' prints "leave +$MNT: other files" unmount disk0 /srv/a
is 'the other is still published' "$(mapped)" "$MNT/b "
hold() { exec sleep 1000 3<$MNT/b; }
start hold hold
ok 'in use' says "cannot unmount '$MNT': it is in use by sleep" unmount disk0
stop hold KILL
is 'still published' "$(mapped)" "$MNT/b "
ok 'the last file' prints 'disconnect' unmount disk0 /srv/b
ok 'the folder stays' rmdir $MNT
rmdir /mnt/te
ok 'and nothing else' clean

both >/dev/null && rm /run/te/mounts.json
ok 'a record that was lost: entries go' prints 'unpublish +/srv/a' unmount disk0
ok 'what may be others'\'' stays' grep -q " $MNT ext4" /proc/self/mounts
umount $MNT && forget && rmdir $MNT /mnt/te
both >/dev/null && umount $MNT && forget
status >"$T/status" && fail 'status after others have unmounted'
ok 'status says that others have unmounted' grep -q "nothing is mounted at $MNT any more" "$T/status"
ok 'unmount after others have unmounted' unmount disk0
ok 'nothing is left' clean
ok 'the end' storage_down
done_testing
