// knowledge.h - what orders accesses beyond barriers: fences with atomics, and cuda::barrier.
//
// A release appends to the log of a synchronisation object (an atomic's address, a barrier) what
// the releasing lane's fence covers; an acquire remembers the object and how long its log was. An
// access is known to a lane if the part of some log that it acquired covers the access.
#pragma once
#include "arena.h"

struct Entry { uint64_t key; uint32_t bound, previous, version; };  // previous: older entry of the same key, + 1
struct Source { SyncObject* object; uint32_t version, since; };     // since: version of the holder's log

struct SyncObject {
  uintptr_t address; uint32_t number;
  Entry* log; uint32_t length, capacity;
  uint32_t* table; uint32_t table_size;  // hash of key -> newest entry + 1
  Source* sources; uint32_t source_count, source_capacity;
};

// Sorted by the objects' numbers; never changed once made.
struct Known { uint32_t count; Source sources[]; };

static uint64_t whole_block(uint32_t block) { return 1ull << 63 | block; }
static uint64_t one_thread(uint32_t epoch, uint32_t thread) { return (uint64_t)epoch << 10 | thread; }

static uint32_t bucket(const SyncObject* s, uint64_t key) { return (key * 0x9E3779B97F4A7C15ull >> 40) & (s->table_size - 1); }

static uint32_t find_entry(const SyncObject* s, uint64_t key) {
  if (!s->table_size) return 0;
  for (uint32_t h = bucket(s, key);; h = (h + 1) & (s->table_size - 1)) {
    uint32_t i = s->table[h];
    if (!i || s->log[i - 1].key == key) return i;
  }
}

static bool grow_table(SyncObject* s) {
  uint32_t size = s->table_size ? s->table_size * 2 : 16;
  uint32_t* table = arena_array<uint32_t>(size);
  if (!table) return false;
  uint32_t* old = s->table; uint32_t old_size = s->table_size;
  s->table = table; s->table_size = size;
  for (uint32_t k = 0; k < old_size; k++)
    if (old[k]) {
      uint32_t h = bucket(s, s->log[old[k] - 1].key);
      while (table[h]) h = (h + 1) & (size - 1);
      table[h] = old[k];
    }
  return true;
}

static void append(SyncObject* s, uint64_t key, uint32_t bound) {
  uint32_t newest = find_entry(s, key);
  if (newest && s->log[newest - 1].bound >= bound) return;
  if (s->length == s->capacity) {
    uint32_t capacity = s->capacity ? s->capacity * 2 : 8;
    Entry* log = arena_array<Entry>(capacity);
    if (!log) return;
    if (s->length) memcpy(log, s->log, s->length * sizeof(Entry));
    s->log = log; s->capacity = capacity;
  }
  if (s->length * 2 >= s->table_size && !grow_table(s)) return;
  s->log[s->length] = {key, bound, newest, s->length + 1};
  uint32_t h = bucket(s, key);
  while (s->table[h] && s->log[s->table[h] - 1].key != key) h = (h + 1) & (s->table_size - 1);
  s->table[h] = ++s->length;
}

constexpr uint32_t SYNC_OBJECTS = 1 << 17;

static SyncObject* new_sync_object(uintptr_t address) {
  SyncObject* s = arena_array<SyncObject>(1);
  if (!s) return nullptr;
  s->address = address; s->number = E.sync_count++;
  return s;
}
// The object of a global address; null when there is none and none is to be made. Past half a table
// of objects no more are made: what they would order is then reported as a race.
static SyncObject* sync_object(uintptr_t address, bool make) {
  if (!E.sync_table && (!make || !(E.sync_table = arena_array<SyncObject*>(SYNC_OBJECTS)))) return nullptr;
  for (uint32_t h = (address * 0x9E3779B97F4A7C15ull >> 40) & (SYNC_OBJECTS - 1);; h = (h + 1) & (SYNC_OBJECTS - 1)) {
    SyncObject*& s = E.sync_table[h];
    if (s && s->address == address) return s;
    if (!s) return make && E.sync_count < SYNC_OBJECTS / 2 ? s = new_sync_object(address) : nullptr;
  }
}

static const Known* merge(const Known* a, const Known* b) {
  if (a == b || !b) return a;
  if (!a) return b;
  Known* k = (Known*)arena_take(sizeof(Known) + (a->count + b->count) * sizeof(Source));
  if (!k) return a;
  uint32_t i = 0, j = 0, n = 0; bool as_a = true, as_b = true;
  while (i < a->count || j < b->count) {
    Source s;
    if (j == b->count || (i < a->count && a->sources[i].object->number < b->sources[j].object->number)) {
      s = a->sources[i++]; as_b = false;
    } else if (i == a->count || b->sources[j].object->number < a->sources[i].object->number) {
      s = b->sources[j++]; as_a = false;
    } else {
      s = a->sources[i]; uint32_t other = b->sources[j].version;
      as_a &= s.version >= other; as_b &= other >= s.version;
      s.version = std::max(s.version, other);
      i++; j++;
    }
    k->sources[n++] = s;
  }
  if (as_a) return a;
  if (as_b) return b;
  k->count = n;
  return k;
}

static void acquire(Lane* lane, SyncObject* s) {
  if (!s || (!s->length && !s->source_count)) return;
  if (lane->known)
    for (uint32_t i = 0; i < lane->known->count; i++)
      if (lane->known->sources[i].object == s && lane->known->sources[i].version >= s->length) return;
  Known* k = (Known*)arena_take(sizeof(Known) + sizeof(Source));
  if (!k) return;
  k->count = 1; k->sources[0] = {s, s->length, 0};
  lane->known = merge(lane->known, k);
}

// Everything of the block's epochs up to `bound`, and this lane's own accesses of `epoch` up to
// `stamp`, happened before whatever acquires s from now on; so did what the lane itself has acquired.
static void release(Lane* lane, SyncObject* s, uint32_t bound, uint32_t epoch, uint32_t clock) {
  if (!s) return;
  if (bound) append(s, whole_block(E.block->number), bound);
  if (epoch) append(s, one_thread(epoch, lane->thread), clock);
  for (uint32_t i = 0; lane->known && i < lane->known->count; i++) {
    Source from = lane->known->sources[i];
    if (from.object == s) continue;
    bool there = false;
    for (uint32_t j = 0; j < s->source_count && !there; j++)
      there = s->sources[j].object == from.object && s->sources[j].version >= from.version;
    if (there) continue;
    if (s->source_count == s->source_capacity) {
      uint32_t capacity = s->source_capacity ? s->source_capacity * 2 : 4;
      Source* sources = arena_array<Source>(capacity);
      if (!sources) return;
      if (s->source_count) memcpy(sources, s->sources, s->source_count * sizeof(Source));
      s->sources = sources; s->source_capacity = capacity;
    }
    // A version of its own, so that who acquired before does not learn of it.
    append(s, 1ull << 62 | s->length, 1);
    s->sources[s->source_count++] = {from.object, from.version, s->length};
  }
}

static bool log_covers(const SyncObject* s, uint32_t version, uint64_t key, uint32_t bound) {
  for (uint32_t i = find_entry(s, key); i; i = s->log[i - 1].previous)
    if (s->log[i - 1].version <= version) return s->log[i - 1].bound >= bound;
  return false;
}
static bool object_covers(const SyncObject* s, uint32_t version, uint32_t epoch, uint32_t thread, uint32_t clock, uint32_t block, int depth) {
  if (log_covers(s, version, whole_block(block), epoch) || log_covers(s, version, one_thread(epoch, thread), clock)) return true;
  if (depth == 0) return false;
  for (uint32_t i = 0; i < s->source_count; i++)
    if (s->sources[i].since <= version && object_covers(s->sources[i].object, s->sources[i].version, epoch, thread, clock, block, depth - 1))
      return true;
  return false;
}
static bool knows(const Known* known, uint32_t epoch, uint32_t thread, uint32_t clock, uint32_t block) {
  for (uint32_t i = 0; i < known->count; i++)
    if (object_covers(known->sources[i].object, known->sources[i].version, epoch, thread, clock, block, 6)) return true;
  return false;
}

static void fence(Lane* lane) {
  E.fences++;
  lane->dirty = 0;
  lane->fence_epoch = E.epoch; lane->fence_stamp = lane->clock; lane->fence_bound = E.epoch - 1;
  lane->clock++;
}

// An atomic or volatile access: the release of what is fenced, the acquire of what others released.
static void synchronise_at(Lane* lane, uintptr_t address, bool reads, bool writes) {
  uint32_t bound = std::max(lane->fence_bound, E.block->published);
  bool has = writes && (bound || lane->fence_epoch);
  SyncObject* s = sync_object(address, has);
  if (!s) return;
  if (reads) acquire(lane, s);
  if (has) release(lane, s, bound, lane->fence_epoch, lane->fence_stamp);
}
