/* test_transport.c - every transport's table of operations is whole, and refuses what it must. */
#include "slices.h"
#include "tap.h"

static bool named_before(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(te_transports[k]->name, te_transports[i]->name))
			return true;
	return false;
}

/* An engine that only asks: a transport opens and closes without a thread, a port or a peer. */
static void opens(const struct te_transport_ops *ops)
{
	struct side s;
	struct te_peer *p = NULL;
	struct te_desc foreign = { .name = (char *)"x",
				   .protocol = (char *)"nothing",
				   .te = { .ctl_fd = -1 } };
	struct te_err err = { 0 };
	int rc;

	ok(side_open(&s, ops, false) == 0, "%s: opens for an initiator", ops->name);
	rc = side_peer(&s, "127.0.0.1", &foreign, &p, &err);
	ok(rc == -EOPNOTSUPP && err.code == rc && err.msg[0], "%s: not its kind of segment: %s",
	   ops->name, err.msg);
	side_close(&s);
}

int main(void)
{
	size_t n = 0;

	for (; te_transports[n]; n++) {
		const struct te_transport_ops *o = te_transports[n];

		ok(o->name && o->name[0] && strlen(o->name) < 16 && !named_before(n),
		   "transport %zu has a name of its own: %s", n, o->name);
		ok(o->open && o->close, "%s: open and close", o->name);
		ok(o->peer_open && o->peer_close && o->submit,
		   "%s: peer_open, peer_close and submit", o->name);
		ok(!o->reg == !(o->unreg || o->forget), "%s: what is registered also goes",
		   o->name);
	}
	ok(n > 0 && te_transports[0] == &te_transport_local, "the shortest way comes first");
	for (size_t i = 0; i < n; i++)
		if (te_transports[i] != &te_transport_rdma) /* which needs NICs: tests/vm */
			opens(te_transports[i]);
	return tap_end();
}
