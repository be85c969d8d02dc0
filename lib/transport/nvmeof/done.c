/* done.c - slices on their way back, and why they failed. */
#include "transport/nvmeof/nvmeof.h"

void nv_done_init(struct nv_done *d)
{
	d->well = d->ill = NULL;
	d->well_end = &d->well;
	d->ill_end = &d->ill;
}

void nv_done_add(struct nv_done *d, struct te_slice *s)
{
	struct te_slice ***end = s->status ? &d->ill_end : &d->well_end;

	s->next = NULL;
	**end = s;
	*end = &s->next;
}

void nv_note(struct nv_peer *p, const struct te_err *why)
{
	unsigned i = 0;

	while (i < NV_REASONS - 1 && p->why[i].code && p->why[i].code != why->code)
		i++;
	p->why[i] = *why;
}

static bool recall(struct nvmeof *t, const struct nv_peer *p, int code, struct te_err *why)
{
	bool known = false;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < NV_REASONS && !known; i++) {
		known = p->why[i].code == code;
		if (known)
			*why = p->why[i];
	}
	pthread_mutex_unlock(&t->lock);
	return known;
}

/* Slices of one peer with one status are told together. */
static void deliver_ill(struct nvmeof *t, struct te_slice *ill)
{
	struct te_sink *sink = t->base.env->sink;

	while (ill) {
		struct nv_peer *p = nv_peer_of(ill);
		struct te_slice *mine = NULL, **mine_end = &mine, *rest = NULL, **rest_end = &rest;
		int status = ill->status;
		struct te_err why;

		for (struct te_slice *s = ill; s; s = s->next) {
			bool alike = nv_peer_of(s) == p && s->status == status;
			struct te_slice ***end = alike ? &mine_end : &rest_end;

			**end = s;
			*end = &s->next;
		}
		*mine_end = *rest_end = NULL;
		sink->done(sink, mine, recall(t, p, status, &why) ? &why : NULL);
		ill = rest;
	}
}

void nv_deliver(struct nvmeof *t, struct nv_done *d)
{
	if (d->well)
		t->base.env->sink->done(t->base.env->sink, d->well, NULL);
	if (d->ill)
		deliver_ill(t, d->ill);
}
