/* tap.h - what the programs of this folder share: TAP, and waiting for a task. */
#ifndef BINDINGS_TAP_H
#define BINDINGS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <transfer_engine_c.h>

static int number, failures;

static inline void ok(bool good, const char *what)
{
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
	fflush(stdout);
}

/* main's last act: its exit status. */
static inline int plan(void)
{
	printf("1..%d\n", number);
	return failures != 0;
}

/* An engine by conn, and in name (64 bytes) what it is called: in P2P that is its address. */
static inline transfer_engine_t open_engine(const char *conn, char *name, const char *wish)
{
	bool p2p = !strcmp(conn, "P2PHANDSHAKE");
	transfer_engine_t e = createTransferEngine(conn, p2p ? "127.0.0.1" : wish, "", 0, 0);

	snprintf(name, 64, "%s", wish);
	if (p2p && e)
		getLocalIpAndPort(e, name, 64);
	return e;
}

/* Until it has ended, at most ms; 0 or what getTransferStatus() says. */
static inline int wait_task(transfer_engine_t e, batch_id_t batch, size_t task, int ms,
			    struct transfer_status *s)
{
	for (int i = 0; i < ms; i++) {
		int r = getTransferStatus(e, batch, task, s);

		if (r || s->status != STATUS_WAITING)
			return r;
		usleep(1000);
	}
	return TE_CODE_TIMEOUT;
}

#endif
