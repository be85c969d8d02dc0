/* te-target.c - publish a segment and serve it. */
#include "target.h"

int main(int argc, char **argv)
{
	return target_main(argc, argv);
}
