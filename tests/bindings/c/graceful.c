/* graceful.c - enableGracefulShutdown(). graceful CONN HOW: two engines, "graceful-1" and
 * "graceful-2", and a third, "left", that did not ask for it. Prints "ready", then by HOW: wait
 * (for a signal), exit (leave main), fork (children that die by SIGTERM and exit(), then wait).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <transfer_engine_c.h>

static char memory[4096];

static int child(int sig)
{
	pid_t pid = fork();
	int status;

	if (!pid && sig)
		for (;;)
			pause();
	if (!pid)
		exit(7);
	if (sig)
		kill(pid, sig);
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *names[] = { "graceful-1", "graceful-2", "left" };
	transfer_engine_t e[3];

	if (argc < 3)
		return 2;
	for (int i = 0; i < 3; i++) {
		e[i] = createTransferEngine(argv[1], names[i], "", 0, 0);
		if (!e[i] || registerLocalMemory(e[i], memory, sizeof(memory), "*", 1))
			return 1;
	}
	enableGracefulShutdown(e[0]);
	enableGracefulShutdown(e[1]);
	enableGracefulShutdown(e[1]);
	if (!strcmp(argv[2], "fork") && (child(SIGTERM) != -SIGTERM || child(0) != 7))
		return 1;
	puts("ready");
	fflush(stdout);
	if (!strcmp(argv[2], "exit"))
		return 0;
	for (;;)
		pause();
}
