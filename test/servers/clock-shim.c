/*
 * Preloaded into redis-server: shifts its wall clock by the milliseconds in the file SLUICE_CLOCK_OFFSET, a signed 64-bit
 * number. The file is mapped, so a write applies to the next read of the clock. Monotonic time is not shifted: setting a
 * clock does not change durations.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *offset_ms = &none;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("SLUICE_CLOCK_OFFSET");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *offset_ms, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) offset_ms = mapped;
  close(fd);
}

/* Uses the system call: dlsym for the next clock_gettime could allocate, and the allocator reads the clock. */
int clock_gettime(clockid_t id, struct timespec *now) {
  int failed = (int)syscall(SYS_clock_gettime, id, now);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t offset = *offset_ms;
  int64_t ns = now->tv_nsec + offset % 1000 * 1000000;
  now->tv_sec += offset / 1000 + (ns >= 1000000000) - (ns < 0);
  now->tv_nsec = ns - ((ns >= 1000000000) - (ns < 0)) * 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec fine;
  if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec fine;
  if (clock_gettime(CLOCK_REALTIME, &fine)) return (time_t)-1;
  if (seconds) *seconds = fine.tv_sec;
  return fine.tv_sec;
}
