/* tune.h - options of a data connection. */
#ifndef TE_TCP_TUNE_H
#define TE_TCP_TUNE_H

/* fd is connected. */
void te_tcp_tune(int fd);

#endif
