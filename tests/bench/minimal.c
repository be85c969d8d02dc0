/* minimal.c - the least that libmicrohttpd can do, the measure for te-http-meta: minimal PORT. */
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static char body[] = "{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":15000}";

static enum MHD_Result answer(void *cls, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	struct MHD_Response *r;
	enum MHD_Result rc;

	(void)cls, (void)url, (void)method, (void)version, (void)data, (void)size;
	if (!*state) { /* queued in the first call, the reply would close the connection */
		*state = body;
		return MHD_YES;
	}
	r = MHD_create_response_from_buffer(sizeof(body) - 1, body, MHD_RESPMEM_PERSISTENT);
	rc = MHD_queue_response(c, MHD_HTTP_OK, r);
	MHD_destroy_response(r);
	return rc;
}

int main(int argc, char **argv)
{
	if (argc < 2 ||
	    !MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t)strtoul(argv[1], NULL, 10),
			      NULL, NULL, answer, NULL, MHD_OPTION_END))
		return 1;
	for (;;)
		pause();
}
