/* io.h - the I/O thread of initiators: drives lanes that nobody drives, and the clock. */
#ifndef TE_TCP_IO_H
#define TE_TCP_IO_H

#include "transport/tcp/lane.h"

struct te_io;

/* How closely it looks: not at all, every 100 ms for time-outs, every millisecond for lanes left
 * lazily. */
enum te_pace { TE_PACE_NONE, TE_PACE_CLOCK, TE_PACE_CLOSE };

int te_io_start(struct te_io **out, struct te_err *err);
/* Joins, frees all peers. NULL is fine. */
void te_io_stop(struct te_io *io);
void te_io_add(struct te_io *io, struct te_tcp_peer *p);
/* Takes p: the thread frees it, since it may be looking at it. */
void te_io_remove(struct te_io *io, struct te_tcp_peer *p);
/* There is work that needs at least this. */
void te_io_need(struct te_io *io, enum te_pace pace);
/* New socket, not armed; then armed once for poll()'s events. */
int te_io_watch(struct te_io *io, struct te_lane *l);
/* Before close(): a forked process may still have the socket, and its events would go on. */
void te_io_unwatch(struct te_io *io, struct te_lane *l);
void te_io_arm(struct te_io *io, struct te_lane *l, short poll_events);

/* peer.c's: nobody uses it any more. */
void te_tcp_peer_free(struct te_tcp_peer *p);

#endif
