/* transport.c - the list of transports in this build, best first. */
#include "transport/transport.h"

const struct te_transport_ops *const te_transports[] = {
	&te_transport_local, &te_transport_shm,	   &te_transport_rdma,
	&te_transport_tcp,   &te_transport_nvmeof, NULL,
};
