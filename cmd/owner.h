/* owner.h - is the owner of a segment there? */
#ifndef TE_CMD_OWNER_H
#define TE_CMD_OWNER_H

#include "te.h"

enum owner_state { OWNER_ALIVE, OWNER_DEAD, OWNER_UNCLEAR };

/*
 * Asks the address of an rpc_meta; two seconds at most. name: of its segment. Dead: nobody takes a connection there, or it is
 * another segment's by now. Unclear: somebody takes it and does not answer. reason says why it is not alive.
 */
enum owner_state owner_probe(const struct te_conf *conf, const char *name, const struct te_rpc_meta *at, char *reason, size_t size);

#endif
