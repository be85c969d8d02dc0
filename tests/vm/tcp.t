#!/bin/sh
# tcp.t - te-target and te-bench in the guest, over tcp: every byte is verified.
. "$(dirname "$0")/lib/guest.sh"

ok 'te-target starts' target t --protocol=tcp --buffer=cpu:0:64M --pattern
for operation in read write; do
	name=te-bench\ $operation
	ok "$name" bench $operation --protocol=tcp --operation=$operation --verify --block-size=65537 --requests=500
	is "$name: no errors" "$(figure $operation errors)" 0
	is "$name: no mismatch" "$(figure $operation mismatches)" 0
	is "$name: all bytes compared" "$(figure $operation checked_bytes)" $((65537 * 500))
	is "$name: over tcp" "$(figure $operation transport)" tcp
done
not_ok 'a block that is larger than the buffer is refused' bench large --protocol=tcp --block-size=65M --requests=1
ok 'te-target ends' stop t
done_testing
