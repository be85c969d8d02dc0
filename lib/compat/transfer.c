/* transfer.c - batches, transfers and notifications under the names of transfer_engine_c.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "compat/compat.h"

/* The structs are the same, so that nothing need be copied. */
#define SAME(a, x, b, y)                                                                           \
	_Static_assert(offsetof(struct a, x) == offsetof(struct b, y) &&                           \
			       sizeof(((struct a *)0)->x) == sizeof(((struct b *)0)->y),           \
		       #a "." #x)

SAME(transfer_request, opcode, te_request, op);
SAME(transfer_request, source, te_request, source);
SAME(transfer_request, target_id, te_request, target);
SAME(transfer_request, target_offset, te_request, offset);
SAME(transfer_request, length, te_request, length);
_Static_assert(sizeof(struct transfer_request) == sizeof(struct te_request), "transfer_request");
SAME(notify_msg, name, te_notify, name);
SAME(notify_msg, msg, te_notify, msg);
_Static_assert(sizeof(struct notify_msg) == sizeof(struct te_notify), "notify_msg");
_Static_assert(OPCODE_READ == TE_READ && OPCODE_WRITE == TE_WRITE, "opcodes");
_Static_assert(STATUS_WAITING == TE_WAITING && STATUS_PENDING == TE_PENDING &&
		       STATUS_INVALID == TE_INVALID && STATUS_CANCELED == TE_CANCELED &&
		       STATUS_COMPLETED == TE_COMPLETED && STATUS_TIMEOUT == TE_TIMEOUT &&
		       STATUS_FAILED == TE_FAILED,
	       "states");
/* tests/bindings/c/layout.c has what programs and other languages have compiled in. */

batch_id_t allocateBatchID(transfer_engine_t h, size_t capacity)
{
	struct compat_engine *e = compat_get(h);
	uint64_t id = INVALID_BATCH;
	struct te_err err;

	if (!e)
		return INVALID_BATCH;
	if (te_batch_alloc(e->te, capacity, &id, &err)) {
		compat_fail(err.code, "allocateBatchID", &err);
		id = INVALID_BATCH;
	} else {
		atomic_store_explicit(&e->used, true, memory_order_relaxed);
	}
	compat_put(h);
	return id;
}

/* msg: NULL for none. */
static int submit(transfer_engine_t h, batch_id_t batch, const void *requests, size_t n,
		  const notify_msg_t *msg, const char *call)
{
	struct compat_engine *e = compat_get(h);
	struct te_err err;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	if (n && !requests)
		r = te_fail(&err, -EINVAL, "%zu requests at NULL", n);
	else if (msg)
		r = te_batch_submit_notify(e->te, batch, requests, n, msg->name, msg->msg, &err);
	else
		r = te_batch_submit(e->te, batch, requests, n, &err);
	compat_put(h);
	return r ? compat_fail(r, call, &err) : 0;
}

int submitTransfer(transfer_engine_t h, batch_id_t batch, struct transfer_request *requests,
		   size_t n)
{
	return submit(h, batch, requests, n, NULL, "submitTransfer");
}

int submitTransferWithNotify(transfer_engine_t h, batch_id_t batch,
			     struct transfer_request *requests, size_t n, notify_msg_t msg)
{
	return submit(h, batch, requests, n, &msg, "submitTransferWithNotify");
}

int getTransferStatus(transfer_engine_t h, batch_id_t batch, size_t task,
		      struct transfer_status *status)
{
	struct compat_engine *e = compat_get(h);
	struct te_status s;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = status ? te_batch_status(e->te, batch, task, &s) : -EINVAL;
	compat_put(h);
	if (r < 0)
		return compat_code(r);
	status->status = (int)s.state;
	status->transferred_bytes = s.transferred;
	return 0;
}

int freeBatchID(transfer_engine_t h, batch_id_t batch)
{
	struct compat_engine *e = compat_get(h);
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = te_batch_free(e->te, batch);
	compat_put(h);
	return compat_code(r);
}

notify_msg_t *getNotifsFromEngine(transfer_engine_t h, int *n)
{
	struct compat_engine *e = compat_get(h);
	struct te_notify *list = NULL;
	int count = e ? te_notify_recv(e->te, &list, NULL) : 0;

	if (e)
		compat_put(h);
	if (n)
		*n = MAX(count, 0);
	if (count > 0 && n)
		return (notify_msg_t *)(void *)list;
	if (count >= 0)
		te_notify_free(list, (size_t)count);
	return NULL;
}

int freeNotifsMsgBuf(notify_msg_t *msgs, int n)
{
	if (n < 0)
		return TE_CODE_INVALID_ARGUMENT;
	if (msgs)
		te_notify_free((struct te_notify *)(void *)msgs, (size_t)n);
	return 0;
}

int genNotifyInEngine(transfer_engine_t h, uint64_t target_id, notify_msg_t msg)
{
	struct compat_engine *e = compat_get(h);
	struct te_err err;
	int r;

	if (!e)
		return TE_CODE_INVALID_ARGUMENT;
	r = target_id > INT32_MAX
		    ? te_fail(&err, -EBADF, "unknown segment id %llu",
			      (unsigned long long)target_id)
		    : te_notify_send(e->te, (int32_t)target_id, msg.name ? msg.name : "",
				     msg.msg ? msg.msg : "", &err);
	compat_put(h);
	return compat_fail(r, "genNotifyInEngine", &err);
}

int getNicLoadStats(transfer_engine_t h, nic_load_stat_t *stats, size_t *count)
{
	(void)stats;
	if (compat_check(h) || !count)
		return TE_CODE_INVALID_ARGUMENT;
	*count = 0;
	return 0;
}
