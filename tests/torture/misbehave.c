/* File system calls, clocks and memory that misbehave, for tests. Preload the library, then call `misbehave(folder, rules)` in
   the process that is to suffer; calls on files outside of `folder` are left alone.

   rules, separated by spaces: CALLS=FAULT@K, at the K-th of these calls, counted from 1; @K+: from there on
     CALLS  letters: r open for reading, w open for writing, R read, W write, S fsync, N rename, U unlink and rmdir,
            M mkdir, T truncate, C chmod, s stat, A allocation of LARGE bytes or more
     FAULT  the number of an error that the call returns, without effect;
            dE  the call has its effect and returns error E: the reply was lost, and the request sent again
            l   the rename is carried out at the next fsync of a folder, or after 40 other calls
            L   the rename is carried out after 40 other calls
            p   power failure: what was not flushed is lost, of delayed renames some, and the process ends
   flock=ok          locks do not hold
   clock=jumps       the time of day jumps back and forth by up to ten days
   seed=NUMBER       of what is lost in a power failure, and of the jumps
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define RULES 8
#define PENDING 64
#define DIRTY 256
#define AFTER_CALLS 40
#define LARGE 65537 /* above the buffers of NumPy, which ends with SIGSEGV where it gets none (2.4) */

struct rule { char calls[16], fault; int error, for_good; long at, seen; };
struct delayed { int from, to, on_sync; char old[NAME_MAX + 1], new[NAME_MAX + 1]; long due; };
struct dirty { dev_t device; ino_t inode; int descriptor; off_t flushed; };

static char place[PATH_MAX];
static struct rule rules[RULES];
static struct delayed pending[PENDING];
static struct dirty dirties[DIRTY];
static pid_t command;
static int rule_count, pending_count, dirty_count, no_locks, jumps;
static unsigned long seed;
static long counts[128], calls;
static __thread int inside; /* the library's own calls */

static unsigned long draw(void) { return (seed = seed * 6364136223846793005ul + 1442695040888963407ul) >> 33; }

void misbehave(const char *folder, const char *text) {
    rule_count = no_locks = jumps = 0;
    seed = calls = 0;
    memset(counts, 0, sizeof counts);
    snprintf(place, sizeof place, "%s", folder);
    command = getpid();
    char copy[1000], *rest;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        struct rule *rule = &rules[rule_count];
        char fault[16], plus[4] = "";
        if (!strcmp(word, "flock=ok")) no_locks = 1;
        else if (!strcmp(word, "clock=jumps")) jumps = 1;
        else if (sscanf(word, "seed=%lu", &seed) == 1) continue;
        else if (sscanf(word, "%15[a-zA-Z]=%15[^@]@%ld%3s", rule->calls, fault, &rule->at, plus) >= 3) {
            rule->fault = strchr("dlLp", fault[0]) ? fault[0] : 'e';
            rule->error = atoi(fault + (rule->fault == 'd'));
            rule->for_good = plus[0] == '+';
            rule->seen = 0;
            rule_count++;
        } else abort();
    }
}

long count_calls(const char *kinds) {
    long sum = 0;
    for (; *kinds; kinds++) sum += counts[(int)*kinds];
    return sum;
}

/* ---- Where a call goes ---- */

static int is_below(const char *path) {
    size_t length = strlen(place);
    return length && !strncmp(path, place, length) && (path[length] == '/' || !path[length]);
}

static int is_open_below(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = REAL(readlink)(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int concerns(int folder, const char *path) {
    if (!place[0] || inside) return 0;
    return path && path[0] == '/' ? is_below(path) : folder != AT_FDCWD && is_open_below(folder);
}

/* ---- Delayed renames, and power failure ---- */

static void carry_out(int keep_from, int synced) {
    int kept = 0;
    for (int i = 0; i < pending_count; i++) {
        struct delayed *each = &pending[i];
        if (i < keep_from || each->due <= calls || (synced && each->on_sync)) {
            REAL(renameat)(each->from, each->old, each->to, each->new);
            close(each->from);
            close(each->to);
        } else pending[kept++] = *each;
    }
    pending_count = kept;
}

/* A descriptor above those of the program, or below 128, the most that a process which reads a foreign file may have. */
static int kept_aside(int descriptor) {
    int kept = fcntl(descriptor, F_DUPFD_CLOEXEC, 700);
    return kept >= 0 ? kept : fcntl(descriptor, F_DUPFD_CLOEXEC, 64);
}

static int delay(int from, const char *old, int to, const char *new, int on_sync) {
    if (pending_count == PENDING) abort();
    struct delayed *made = &pending[pending_count++];
    made->from = from == AT_FDCWD ? open(".", O_RDONLY | O_DIRECTORY) : kept_aside(from);
    made->to = to == AT_FDCWD ? open(".", O_RDONLY | O_DIRECTORY) : kept_aside(to);
    snprintf(made->old, sizeof made->old, "%s", old);
    snprintf(made->new, sizeof made->new, "%s", new);
    made->on_sync = on_sync;
    made->due = calls + AFTER_CALLS;
    return 0;
}

static void note_change(int descriptor) {
    struct stat found;
    if (REAL(fstat)(descriptor, &found)) return;
    for (int i = 0; i < dirty_count; i++)
        if (dirties[i].device == found.st_dev && dirties[i].inode == found.st_ino) return;
    if (dirty_count == DIRTY) abort();
    int kept = kept_aside(descriptor);
    dirties[dirty_count++] = (struct dirty){found.st_dev, found.st_ino, kept, found.st_size};
}

static void note_flush(int descriptor) {
    struct stat found;
    if (REAL(fstat)(descriptor, &found)) return;
    for (int i = 0; i < dirty_count; i++)
        if (dirties[i].device == found.st_dev && dirties[i].inode == found.st_ino) {
            close(dirties[i].descriptor);
            dirties[i] = dirties[--dirty_count];
            return;
        }
}

static void power_failure(void) {
    inside = 1;
    for (int i = 0; i < dirty_count; i++) {
        struct stat found;
        REAL(fstat)(dirties[i].descriptor, &found);
        off_t lost = found.st_size > dirties[i].flushed ? found.st_size - dirties[i].flushed : 0;
        if (lost && ftruncate(dirties[i].descriptor, dirties[i].flushed + draw() % lost)) abort();
    }
    carry_out(pending_count ? draw() % (pending_count + 1) : 0, 0);
    if (getpid() != command) kill(command, SIGKILL); /* which waits for a process that reads a foreign file */
    kill(getpid(), SIGKILL);
}

/* ---- Which fault a call has ---- */

static struct rule *fault_of(char kind) {
    struct rule *found = NULL;
    calls++;
    counts[(int)kind]++;
    inside = 1;
    carry_out(0, 0);
    inside = 0;
    for (int i = 0; i < rule_count; i++)
        if (strchr(rules[i].calls, kind)) {
            long number = ++rules[i].seen;
            if (!found && (number == rules[i].at || (rules[i].for_good && number > rules[i].at))) found = &rules[i];
        }
    if (found && found->fault == 'p') power_failure();
    return found;
}

/* Return the result of `call`, unless its kind has a fault now. */
#define GUARDED(here, kind, type, call)                                      \
    do {                                                                     \
        struct rule *rule = (here) ? fault_of(kind) : NULL;                  \
        if (rule && rule->fault == 'd' && (type)(call) >= 0) { errno = rule->error; return -1; } \
        if (rule && rule->fault == 'e') { errno = rule->error; return -1; }  \
        return call;                                                         \
    } while (0)

#define OPENED(name, folder, path, ...)                                                     \
    mode_t mode = 0;                                                                        \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                    \
        va_list more;                                                                       \
        va_start(more, flags);                                                              \
        mode = va_arg(more, mode_t);                                                        \
        va_end(more);                                                                       \
    }                                                                                       \
    char kind = (flags & O_ACCMODE) == O_RDONLY ? 'r' : 'w';                                \
    GUARDED(concerns(folder, path), kind, int, REAL(name)(__VA_ARGS__, flags, mode))

int open(const char *path, int flags, ...) { OPENED(open, AT_FDCWD, path, path); }
int open64(const char *path, int flags, ...) { OPENED(open64, AT_FDCWD, path, path); }
int openat(int folder, const char *path, int flags, ...) { OPENED(openat, folder, path, folder, path); }
int openat64(int folder, const char *path, int flags, ...) { OPENED(openat64, folder, path, folder, path); }

#define IS_OPEN_HERE(descriptor) (place[0] && !inside && is_open_below(descriptor))

ssize_t read(int descriptor, void *to, size_t size) {
    GUARDED(IS_OPEN_HERE(descriptor), 'R', ssize_t, REAL(read)(descriptor, to, size));
}
ssize_t pread64(int descriptor, void *to, size_t size, off_t at) {
    GUARDED(IS_OPEN_HERE(descriptor), 'R', ssize_t, REAL(pread64)(descriptor, to, size, at));
}
ssize_t write(int descriptor, const void *from, size_t size) {
    int here = IS_OPEN_HERE(descriptor);
    if (here) note_change(descriptor);
    GUARDED(here, 'W', ssize_t, REAL(write)(descriptor, from, size));
}
ssize_t pwrite64(int descriptor, const void *from, size_t size, off_t at) {
    int here = IS_OPEN_HERE(descriptor);
    if (here) note_change(descriptor);
    GUARDED(here, 'W', ssize_t, REAL(pwrite64)(descriptor, from, size, at));
}
int ftruncate64(int descriptor, off_t size) {
    GUARDED(IS_OPEN_HERE(descriptor), 'T', int, REAL(ftruncate64)(descriptor, size));
}
int fsync(int descriptor) {
    struct stat found;
    int here = IS_OPEN_HERE(descriptor);
    struct rule *rule = here ? fault_of('S') : NULL;
    if (rule && rule->fault == 'e') { errno = rule->error; return -1; }
    if (here) {
        note_flush(descriptor);
        inside = 1;
        if (!REAL(fstat)(descriptor, &found) && S_ISDIR(found.st_mode)) carry_out(0, 1);
        inside = 0;
    }
    return 0; /* the disk itself is not waited for */
}
static int renamed(int from, const char *old, int to, const char *new, unsigned flags) {
    struct rule *rule = concerns(to, new) ? fault_of('N') : NULL;
    if (rule && rule->fault == 'e') { errno = rule->error; return -1; }
    if (rule && strchr("lL", rule->fault)) return delay(from, old, to, new, rule->fault == 'l');
    int result = renameat2(from, old, to, new, flags);
    if (rule && rule->fault == 'd' && !result) { errno = rule->error; return -1; }
    return result;
}
int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return renamed(from, old, to, new, 0); }

int unlink(const char *path) { GUARDED(concerns(AT_FDCWD, path), 'U', int, REAL(unlink)(path)); }
int rmdir(const char *path) { GUARDED(concerns(AT_FDCWD, path), 'U', int, REAL(rmdir)(path)); }
int unlinkat(int folder, const char *path, int flags) {
    GUARDED(concerns(folder, path), 'U', int, REAL(unlinkat)(folder, path, flags));
}
int mkdir(const char *path, mode_t mode) { GUARDED(concerns(AT_FDCWD, path), 'M', int, REAL(mkdir)(path, mode)); }
int mkdirat(int folder, const char *path, mode_t mode) {
    GUARDED(concerns(folder, path), 'M', int, REAL(mkdirat)(folder, path, mode));
}
int fchmod(int descriptor, mode_t mode) { GUARDED(IS_OPEN_HERE(descriptor), 'C', int, REAL(fchmod)(descriptor, mode)); }

int stat64(const char *path, struct stat64 *to) { GUARDED(concerns(AT_FDCWD, path), 's', int, REAL(stat64)(path, to)); }
int lstat64(const char *path, struct stat64 *to) { GUARDED(concerns(AT_FDCWD, path), 's', int, REAL(lstat64)(path, to)); }
int fstat64(int descriptor, struct stat64 *to) { GUARDED(IS_OPEN_HERE(descriptor), 's', int, REAL(fstat64)(descriptor, to)); }
int fstatat64(int folder, const char *path, struct stat64 *to, int flags) {
    GUARDED(concerns(folder, path), 's', int, REAL(fstatat64)(folder, path, to, flags));
}

/* ---- Memory: the functions of glibc, for dlsym allocates itself ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int is_refused(size_t size) {
    if (size < LARGE || !place[0] || inside) return 0;
    counts['A']++;
    for (int i = 0; i < rule_count; i++)
        if (strchr(rules[i].calls, 'A')) {
            long number = __atomic_add_fetch(&rules[i].seen, 1, __ATOMIC_RELAXED);
            if (number == rules[i].at || (rules[i].for_good && number > rules[i].at)) {
                errno = rules[i].error;
                return 1;
            }
        }
    return 0;
}
void *malloc(size_t size) { return is_refused(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_refused(count * size) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return is_refused(size) ? NULL : __libc_realloc(old, size); }

/* ---- Locks, time, and the end ---- */

int flock(int descriptor, int operation) { return no_locks && IS_OPEN_HERE(descriptor) ? 0 : REAL(flock)(descriptor, operation); }

int clock_gettime(clockid_t clock, struct timespec *to) {
    int result = REAL(clock_gettime)(clock, to);
    if (!result && clock == CLOCK_REALTIME && jumps) to->tv_sec += (long)(draw() % 1728000) - 864000;
    return result;
}
time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}

void _exit(int status) {
    if (pending_count) { inside = 1; carry_out(pending_count, 1); }
    REAL(_exit)(status);
    __builtin_unreachable();
}
