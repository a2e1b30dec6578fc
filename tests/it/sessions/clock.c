/* A clock of the day that a test can set: the real one and what a file says, in seconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("TEST_CLOCK");
    if (failed || clock != CLOCK_REALTIME || !path) return (int)failed;
    char text[32] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
        close(file);
    }
    return 0;
}
