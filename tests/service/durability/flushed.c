/* What would be left if the power failed: whenever a file under $WATCHED is flushed to disk, a copy of it goes to
   $FLUSHED. To be loaded before the C library (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void copy(int from, const char *to) {
    char beside[PATH_MAX + 8], block[65536];
    off_t at = 0;
    ssize_t n;
    int out;
    snprintf(beside, sizeof beside, "%s.tmp", to);
    out = open(beside, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) abort();
    while ((n = pread(from, block, sizeof block, at)) > 0) {
        if (write(out, block, n) != n) abort();
        at += n;
    }
    if (n < 0 || close(out) || rename(beside, to)) abort();
}

static void keep(int file) {
    const char *watched = getenv("WATCHED"), *flushed = getenv("FLUSHED");
    char link[64], path[PATH_MAX], to[2 * PATH_MAX], *c;
    ssize_t n;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0 || !watched || !flushed) return;
    path[n] = 0;
    if (strncmp(path, watched, strlen(watched)) || pread(file, link, 1, 0) < 0) return; /* or it is a folder */
    for (c = path + strlen(watched); *c; c++)
        if (*c == '/') *c = '%';
    snprintf(to, sizeof to, "%s/%s", flushed, path + strlen(watched));
    copy(file, to);
}

static int flush(const char *how, int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, how);
    int failed = real(file);
    if (!failed) keep(file);
    return failed;
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
