/* segment.c - segments that were opened: their descriptors, the peers they are reached by,
 * refreshing both. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host/addr.h"

int te_find_owner(struct te_engine *e, const char *name, struct te_rpc_meta *out,
		  struct te_err *err)
{
	struct te_meta_value v;
	char *key = te_meta_key_rpc(e->meta, name);
	int r;

	if (!key)
		return te_fail(err, -EINVAL, "segment name is empty");
	r = te_meta_get(e->meta, key, &v, err);
	free(key);
	if (r == -ENOENT)
		return te_fail(err, r, "no rpc_meta entry of '%s' in %s: is its owner gone?", name,
			       te_meta_uri(e->meta));
	if (r < 0)
		return r;
	r = te_rpc_meta_parse(v.data, v.len, out, err);
	te_meta_value_clear(&v);
	return r < 0 ? te_wrap(err, r, "rpc_meta of segment '%s'", name) : 0;
}

/* What the store has under the segment's name, or, where no RAM segment has it, under nvmeof/NAME.
 */
static int get_text(struct te_engine *e, const char *name, struct te_meta_value *v,
		    struct te_err *err)
{
	char *key = te_meta_key_segment(e->meta, name), *second, *files = NULL;
	int r;

	if (!key)
		return te_fail(err, -EINVAL, "segment name is empty");
	r = te_meta_get(e->meta, key, v, err);
	if (r == -ENOENT && !e->p2p && !strchr(name, '/')) {
		files = te_asprintf("nvmeof/%s", name);
		second = files ? te_meta_key_segment(e->meta, files) : NULL;
		if (second)
			r = te_meta_get(e->meta, second, v, err);
		free(second);
	}
	if (r == -ENOENT)
		te_fail(err, r, "no segment '%s' in %s (key '%s'%s%s)", name, te_meta_uri(e->meta),
			key, files ? ", nor " : "", files ? files : "");
	free(files);
	free(key);
	return r;
}

/* Files need no owner. A segment that te-register announced has none yet. */
static int find_owner(struct te_engine *e, const char *name, const struct te_desc *d,
		      struct te_rpc_meta *owner, struct te_err *err)
{
	int r;

	memset(owner, 0, sizeof(*owner));
	if (!strcmp(d->protocol, "nvmeof"))
		return 0;
	r = te_find_owner(e, name, owner, err);
	if (r == -ENOENT && !d->nbuffers)
		te_fail(err, r, "segment '%s' has no buffers: no engine serves it yet", name);
	return r;
}

int te_seg_fetch(struct te_engine *e, const char *name, struct te_desc **desc,
		 struct te_rpc_meta *owner, struct te_err *err)
{
	struct te_meta_value v;
	int r = e->p2p && !strncmp(name, "nvmeof/", 7)
			? te_fail(err, -EOPNOTSUPP,
				  "segment '%s': segments of files need a metadata store", name)
			: get_text(e, name, &v, err);

	if (r < 0)
		return r;
	r = te_desc_parse(v.data, v.len, desc, err);
	te_meta_value_clear(&v);
	if (r < 0)
		return te_wrap(err, r, "descriptor of segment '%s'", name);
	r = find_owner(e, name, *desc, owner, err);
	if (r < 0)
		te_desc_free(*desc);
	return r;
}

/* ---- ranges ------------------------------------------------------------------------------- */

static int by_addr(const void *a, const void *b)
{
	const struct te_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* rdma: pieces of one registration that was too long for the NICs touch each other. nvmeof: files
   lie one behind the other. */
static size_t join_touching(struct te_range *r, size_t n)
{
	size_t k = 0;

	for (size_t i = 1; i < n; i++)
		if (r[k].addr + r[k].len == r[i].addr)
			r[k].len += r[i].len;
		else
			r[++k] = r[i];
	return n ? k + 1 : 0;
}

static int make_ranges(const struct te_desc *d, struct te_range **out, size_t *count,
		       struct te_err *err)
{
	struct te_range *r = calloc(d->nbuffers + 1, sizeof(*r));

	if (!r)
		return te_fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < d->nbuffers; i++)
		r[i] = (struct te_range){ d->buffers[i].addr, d->buffers[i].length };
	qsort(r, d->nbuffers, sizeof(*r), by_addr);
	*count = strcmp(d->protocol, "tcp") ? join_touching(r, d->nbuffers) : d->nbuffers;
	*out = r;
	return 0;
}

/* seg->lock held. *hint: index that matched last. Not te_desc_covers(), which takes two
   registrations that touch for one: the target would refuse a range across both. */
static bool covered(const struct te_seg *seg, uint64_t addr, uint64_t len, size_t *hint)
{
	size_t lo = 0, hi = seg->nranges;

	if (seg->peer->ops->covers)
		return seg->peer->ops->covers(seg->peer, addr, len);
	if (*hint < hi && addr >= seg->ranges[*hint].addr && len <= seg->ranges[*hint].len &&
	    addr - seg->ranges[*hint].addr <= seg->ranges[*hint].len - len)
		return true;
	while (lo < hi) { /* first range above addr */
		size_t mid = lo + (hi - lo) / 2;

		if (seg->ranges[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	*hint = lo - 1;
	return len <= seg->ranges[lo - 1].len &&
	       addr - seg->ranges[lo - 1].addr <= seg->ranges[lo - 1].len - len;
}

/* ---- refreshing --------------------------------------------------------------------------- */

/* Does what was found call for another peer than the one in use? */
static bool differs(const struct te_seg *seg, const struct te_desc *b, const char *host)
{
	const struct te_desc *a = seg->desc;

	return !seg->peer || !a || strcmp(seg->host, host) || strcmp(a->protocol, b->protocol) ||
	       a->tcp_data_port != b->tcp_data_port ||
	       a->tcp_proto_version != b->tcp_proto_version || a->te.present != b->te.present ||
	       (a->te.present &&
		(strcmp(a->te.token, b->te.token) || strcmp(a->te.host, b->te.host)));
}

/* The transfers of a peer that was replaced go on with the new one. */
static void retire(struct te_seg *seg, struct te_peer *old)
{
	struct te_err why;

	if (old && old->ops->abort) {
		te_fail(&why, -ECONNRESET, "segment '%s' has moved to another address", seg->name);
		old->ops->abort(old, -ECONNRESET, &why);
	}
	te_peer_put(seg->e, old);
}

static void swap_in(struct te_seg *seg, struct te_desc *d, struct te_range *ranges, size_t nranges,
		    struct te_peer *peer, const char *host)
{
	struct te_desc *old_desc;
	struct te_range *old_ranges;
	struct te_peer *old = NULL;

	pthread_rwlock_wrlock(&seg->lock);
	old_desc = seg->desc;
	old_ranges = seg->ranges;
	seg->desc = d;
	seg->ranges = ranges;
	seg->nranges = nranges;
	if (peer) {
		old = seg->peer;
		seg->peer = peer;
		te_strlcpy(seg->host, host, sizeof(seg->host));
	}
	pthread_rwlock_unlock(&seg->lock);
	te_desc_free(old_desc);
	free(old_ranges);
	retire(seg, old);
}

int te_seg_install(struct te_seg *seg, struct te_desc *d, const char *host, struct te_err *err)
{
	struct te_range *ranges = NULL;
	struct te_peer *peer = NULL;
	size_t nranges = 0;
	bool change;
	int r = make_ranges(d, &ranges, &nranges, err);

	if (r < 0)
		goto fail;
	pthread_rwlock_rdlock(&seg->lock);
	change = differs(seg, d, host);
	pthread_rwlock_unlock(&seg->lock);
	if (change) {
		r = te_peer_choose(seg->e, seg->name, host, d, &peer, err);
		if (r < 0)
			goto fail;
	} else {
		peer = te_seg_peer(seg);
		if (peer->ops->update)
			peer->ops->update(peer, d);
		te_peer_put(seg->e, peer);
		peer = NULL;
	}
	swap_in(seg, d, ranges, nranges, peer, host);
	return 0;
fail:
	free(ranges);
	te_desc_free(d);
	return r;
}

int te_seg_refresh(struct te_seg *seg, struct te_err *err)
{
	struct te_rpc_meta owner;
	struct te_desc *d;
	int r;

	atomic_fetch_add(&seg->e->refreshes, 1);
	r = te_seg_fetch(seg->e, seg->name, &d, &owner, err);
	return r < 0 ? r : te_seg_install(seg, d, owner.host, err);
}

static struct te_slice *take_parked(struct te_seg *seg, struct te_err *why)
{
	struct te_slice *s;

	pthread_mutex_lock(&seg->park_lock);
	s = seg->parked;
	*why = seg->park_why;
	seg->parked = NULL;
	seg->park_why.code = 0;
	if (!s) {
		seg->refreshing = false;
		pthread_cond_broadcast(&seg->parked_cond);
	}
	pthread_mutex_unlock(&seg->park_lock);
	return s;
}

/* After a refresh: back to the transport, or the end for ranges that nobody registered. */
static void redispatch(struct te_seg *seg, struct te_slice *chain, const struct te_err *why)
{
	struct te_slice *send = NULL, **send_end = &send, *lost = NULL, **lost_end = &lost;
	struct te_err reason;
	size_t hint = 0;

	pthread_rwlock_rdlock(&seg->lock);
	for (struct te_slice *s = chain, *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		if (atomic_load(&s->task->stopped)) {
			s->status = -ECANCELED;
			*lost_end = s;
			lost_end = &s->next;
		} else if (covered(seg, s->remote, s->len, &hint)) {
			*send_end = s;
			send_end = &s->next;
		} else {
			s->status = -EFAULT;
			*lost_end = s;
			lost_end = &s->next;
		}
	}
	pthread_rwlock_unlock(&seg->lock);
	if (lost) {
		te_fail(&reason, -EFAULT, "range %#llx+%llu is not registered in segment '%s'%s%s",
			(unsigned long long)lost->remote, (unsigned long long)lost->len, seg->name,
			why->code ? " any more: " : "", why->code ? why->msg : "");
		te_task_finish(lost, &reason);
	}
	if (send)
		te_seg_dispatch(seg, send);
}

/* why: what failed before (code 0: the address was unknown); err: what fails now. */
static void give_up(struct te_slice *chain, int status, const struct te_err *why,
		    const struct te_err *err)
{
	struct te_err both;

	if (why->code)
		te_fail(&both, why->code, "%.240s (and no newer address: %.240s)", why->msg,
			err->msg);
	for (struct te_slice *s = chain; s; s = s->next)
		s->status = why->code ? why->code : status;
	te_task_finish(chain, why->code ? &both : err);
}

static void *refresh_main(void *arg)
{
	struct te_seg *seg = arg;
	struct te_err why, err;
	struct te_slice *chain;

	while ((chain = take_parked(seg, &why))) {
		int r = te_seg_refresh(seg, &err);

		/* A store that does not answer is no news of the peer: what failed is tried again
		   where it was. (In P2P the store is the peer.) */
		if (r < 0 && r != -ENOENT && why.code && !seg->e->p2p) {
			te_info("segment '%s': no fresh descriptor: %s", seg->name, err.msg);
		} else if (r < 0) {
			give_up(chain, r, &why, &err);
			continue;
		}
		redispatch(seg, chain, &why);
	}
	return NULL;
}

void te_seg_park(struct te_seg *seg, struct te_slice *chain, const struct te_err *why)
{
	struct te_slice **end = &chain;
	int r = 0;

	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&seg->park_lock);
	*end = seg->parked;
	seg->parked = chain;
	if (why && !seg->park_why.code)
		seg->park_why = *why;
	if (!seg->refreshing) {
		if (seg->has_thread)
			pthread_join(seg->refresher, NULL);
		seg->refreshing = true;
		r = te_thread_start(&seg->refresher, "te-refresh", refresh_main, seg);
		seg->has_thread = !r;
		if (r) {
			seg->refreshing = false;
			chain = seg->parked;
			seg->parked = NULL;
		}
	}
	pthread_mutex_unlock(&seg->park_lock);
	if (r) {
		struct te_err err;

		te_fail(&err, r, "cannot start a thread to refresh segment '%s': %s", seg->name,
			strerror(-r));
		for (struct te_slice *s = chain; s; s = s->next)
			s->status = r;
		te_task_finish(chain, &err);
	}
}

/* ---- dispatch ----------------------------------------------------------------------------- */

/* Every batch in the chain remembers the peer; false: out of memory. */
static bool keep_peer(struct te_slice *chain, struct te_peer *p)
{
	struct te_batch *last = NULL;

	for (struct te_slice *s = chain; s; s = s->next) {
		if (s->task->batch != last && te_batch_keep_peer(s->task->batch, p) < 0)
			return false;
		last = s->task->batch;
	}
	return true;
}

static void out_of_memory(struct te_slice *chain)
{
	struct te_err err;

	te_fail(&err, -ENOMEM, "out of memory");
	for (struct te_slice *s = chain; s; s = s->next)
		s->status = -ENOMEM;
	te_task_finish(chain, &err);
}

void te_seg_dispatch(struct te_seg *seg, struct te_slice *chain)
{
	struct te_slice *send = NULL, **send_end = &send, *park = NULL, **park_end = &park;
	struct te_peer *p;
	size_t hint = 0;

	pthread_rwlock_rdlock(&seg->lock);
	p = seg->peer;
	te_peer_ref(p);
	for (struct te_slice *s = chain, *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		/* A transport that knows better than the descriptor looks when it copies. */
		if (p->ops->covers || covered(seg, s->remote, s->len, &hint)) {
			atomic_store_explicit(&s->peer, p, memory_order_relaxed);
			atomic_store_explicit(&s->lent, true, memory_order_release);
			*send_end = s;
			send_end = &s->next;
		} else {
			*park_end = s;
			park_end = &s->next;
		}
	}
	pthread_rwlock_unlock(&seg->lock);
	if (park)
		te_seg_park(seg, park, NULL);
	if (send && keep_peer(send, p))
		p->ops->submit(p, send);
	else if (send)
		out_of_memory(send);
	te_peer_put(seg->e, p);
}

struct te_peer *te_seg_peer(struct te_seg *seg)
{
	struct te_peer *p;

	pthread_rwlock_rdlock(&seg->lock);
	p = seg->peer;
	if (p)
		te_peer_ref(p);
	pthread_rwlock_unlock(&seg->lock);
	return p;
}

void te_seg_abort(struct te_seg *seg, int status, const struct te_err *why)
{
	struct te_peer *p = te_seg_peer(seg);

	if (p && p->ops->abort)
		p->ops->abort(p, status, why);
	te_peer_put(seg->e, p);
}
