/* affinity.h - MC_NIC_PEER_AFFINITY: which NICs of a peer a NIC here takes for GPU memory there (INTEROP 5.4). */
#ifndef TE_RDMA_AFFINITY_H
#define TE_RDMA_AFFINITY_H

#include <stdbool.h>

/* rules: "LOCAL=PEER,PEER;LOCAL=PEER", checked by the table of tunables. Does one of NIC `local` leave `remote` out for
   memory at `location`? No rule, or no GPU memory: false. */
bool te_affinity_excludes(const char *rules, const char *location, const char *local, const char *remote);

#endif
