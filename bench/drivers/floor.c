/*
 * Counts how many empty sandboxes all processors make and end in a second when they do nothing else, by a program
 * that makes the calls and nothing more.
 *
 * Usage: floor SECONDS NAMESPACES [SCRATCH [DIRECTORY FILE VALUE]...]
 *
 * A life is a process in new namespaces (NAMESPACES, the flags of clone). With SCRATCH it also mounts what a sandbox
 * has at least: root, system, a bounded place to write, terminals, /proc; and for each DIRECTORY it is in a control
 * group made there, limited by VALUE in FILE ("-": by nothing). DIRECTORY "." is the last one again, for one more
 * limit. Needs root. Started by floor.py, which says what for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, CLOSED = MS_RDONLY | MS_NOSUID | MS_NODEV };

static const char *scratch;
static char **groups; /* Directory, file, value; again and again, until there is none. */

static void check(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        _exit(1);
    }
}

/* Puts a text together; the last two are there at a time. */
static const char *text(const char *format, const char *first, const char *second, const char *third)
{
    static char places[2][PATH_BYTES];
    static int next;
    char *place = places[next++ % 2];
    snprintf(place, PATH_BYTES, format, first, second, third);
    return place;
}

static void put(const char *file, const char *value)
{
    int descriptor = open(file, O_WRONLY | O_CLOEXEC);
    check(descriptor, file);
    check(write(descriptor, value, strlen(value)), file);
    close(descriptor);
}

static void show(const char *source, const char *target, const char *kind, unsigned long flags, const char *options)
{
    check(mount(source, target, kind, flags, options), target);
}

static void build(void)
{
    static const char *const writable[][2] = {{"workspace", "workspace"}, {"home", "home/user"}, {"tmp", "tmp"}};
    show("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    show("overlay", text("%s/root", scratch, "", ""), "overlay", CLOSED,
         text("lowerdir=%s/lower:%s/empty,userxattr", scratch, scratch, ""));
    show("overlay", text("%s/root/usr", scratch, "", ""), "overlay", CLOSED,
         text("lowerdir=/usr:%s/empty,userxattr", scratch, "", ""));
    show("tmpfs", text("%s/writable", scratch, "", ""), "tmpfs", MS_NOSUID | MS_NODEV,
         "size=100m,nr_inodes=25600,mode=755");
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        const char *source = text("%s/writable/%s", scratch, writable[i][0], "");
        check(mkdir(source, 0755), source);
        show(source, text("%s/root/%s", scratch, writable[i][1], ""), NULL, MS_BIND, NULL);
    }
    show("devpts", text("%s/root/dev", scratch, "", ""), "devpts", MS_NOSUID | MS_NOEXEC,
         "newinstance,ptmxmode=0666,mode=0600");
    show("proc", text("%s/root/proc", scratch, "", ""), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid");
    check(chdir(text("%s/root", scratch, "", "")), "chdir");
    check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    check(umount2(".", MNT_DETACH), "umount");
    check(chdir("/"), "chdir");
}

static int is_new(char **group)
{
    return strcmp(group[0], ".") != 0;
}

static void make_groups(const char *name)
{
    const char *parent = "";
    for (char **group = groups; *group; group += 3) {
        if (is_new(group)) {
            const char *directory = text("%s/%s", group[0], name, "");
            check(mkdir(directory, 0755), directory);
            parent = group[0];
        }
        if (strcmp(group[1], "-") != 0)
            put(text("%s/%s/%s", parent, name, group[1]), group[2]);
    }
}

static void remove_groups(const char *name)
{
    for (char **group = groups; *group; group += 3) {
        const char *directory = text("%s/%s", group[0], name, "");
        /* Its last process has ended, which the kernel may notice a moment later. */
        while (is_new(group) && rmdir(directory) < 0)
            check(errno == EBUSY ? 0 : -1, directory);
    }
}

static void admit(const char *name, pid_t process)
{
    char number[16];
    snprintf(number, sizeof number, "%d", process);
    put(text("/proc/%s/uid_map", number, "", ""), "0 0 1");
    put(text("/proc/%s/gid_map", number, "", ""), "0 0 1");
    for (char **group = groups; *group; group += 3)
        if (is_new(group))
            put(text("%s/%s/cgroup.procs", group[0], name, ""), number);
}

static void live(long namespaces, const char *name)
{
    int gate[2], status;
    make_groups(name);
    check(pipe2(gate, O_CLOEXEC), "pipe");
    pid_t process = syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
    check(process, "clone");
    if (process == 0) {
        char word;
        close(gate[1]);
        if (scratch) {
            check(read(gate[0], &word, 1) - 1, "read");
            build();
        }
        _exit(0);
    }
    close(gate[0]);
    if (scratch) {
        admit(name, process);
        check(write(gate[1], "g", 1), "write");
    }
    close(gate[1]);
    check(waitpid(process, &status, 0), "wait");
    check(status == 0 ? 0 : -1, "a life ended badly");
    remove_groups(name);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    static char *none[] = {NULL};
    if (count < 3) {
        fputs("usage: floor SECONDS NAMESPACES [SCRATCH [DIRECTORY FILE VALUE]...]\n", stderr);
        return 2;
    }
    double seconds = atof(arguments[1]);
    long namespaces = atol(arguments[2]), workers = sysconf(_SC_NPROCESSORS_ONLN), sum = 0;
    scratch = count > 3 ? arguments[3] : NULL;
    groups = count > 4 ? arguments + 4 : none;
    int results[2];
    check(pipe(results), "pipe");
    for (long i = 0; i < workers; i++) {
        if (fork() == 0) {
            long lives = 0;
            char name[32];
            for (double end = seconds_now() + seconds; seconds_now() < end; lives++) {
                snprintf(name, sizeof name, "%d.%ld", getpid(), lives);
                live(namespaces, name);
            }
            check(write(results[1], &lives, sizeof lives), "write");
            _exit(0);
        }
    }
    close(results[1]);
    for (long i = 0, lives; i < workers; i++) {
        if (read(results[0], &lives, sizeof lives) != sizeof lives) {
            fputs("a worker ended early\n", stderr);
            return 1;
        }
        sum += lives;
    }
    while (wait(NULL) > 0)
        ;
    printf("%g\n", sum / seconds);
    return 0;
}
