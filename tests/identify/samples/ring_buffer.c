#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ring {
  unsigned char *bytes;
  size_t capacity, head, used;
};

static int ring_open(struct ring *r, size_t capacity) {
  r->bytes = malloc(capacity);
  if (r->bytes == NULL) return -1;
  r->capacity = capacity;
  r->head = r->used = 0;
  return 0;
}

static size_t ring_write(struct ring *r, const void *from, size_t count) {
  size_t room = r->capacity - r->used;
  size_t at = (r->head + r->used) % r->capacity;
  size_t first;
  if (count > room) count = room;
  first = count < r->capacity - at ? count : r->capacity - at;
  memcpy(r->bytes + at, from, first);
  memcpy(r->bytes, (const char *)from + first, count - first);
  r->used += count;
  return count;
}

int main(void) {
  struct ring r;
  if (ring_open(&r, 16) != 0) {
    perror("ring_open");
    return EXIT_FAILURE;
  }
  printf("%zu bytes written\n", ring_write(&r, "twenty bytes of text", 20));
  free(r.bytes);
  return 0;
}
