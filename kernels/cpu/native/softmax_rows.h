// Row functions of softmax for one type, TYPE, named NAME(function). softmax_lanes.h includes this file once
// per type.

GA_INLINE lanes NAME(emitted)(const int how, const emission *m, lanes x) {
  switch (how) {
    case KEPT: return x * m->by;
    case AGAIN: return softmax_exp2(TYPE, (x - m->top) * m->k) * m->by;
    case LOGARITHM: return (x - m->top) * m->k - m->log;
    default: return all(m->by);
  }
}

GA_INLINE lanes NAME(source)(const int how, const emission *m, int64_t i) {
  if (how == FILL) return (lanes){0};
  return how == KEPT ? load(GA_FP32, m->kept, i) : load(TYPE, m->x, i);
}

GA_INLINE void NAME(emit_part)(const int how, const emission *m, int64_t i, int64_t n, char *out) {
  lanes x = {0};
  if (how == KEPT) x = get_part(GA_FP32, (const char *)(m->kept + i), n);
  else if (how != FILL) x = get_part(TYPE, m->x + i * ga_size(TYPE), n);
  put_part(TYPE, out + i * ga_size(TYPE), n, NAME(emitted)(how, m, x));
}

// emit_as writes n elements. With past, whole lines use non-temporal stores; partial lines at both ends do
// not.
GA_INLINE void NAME(emit_as)(const int how, const int past, const emission *m, int64_t n, char *out) {
  const int64_t size = ga_size(TYPE), line = 64 / size;
  int64_t i = 0;
  if (past) {
    int64_t head = (64 - (int64_t)((uintptr_t)out % 64)) % 64 / size;
    if (head > n) head = n;
    for (; i + LANES <= head; i += LANES) put(TYPE, 0, out + i * size, NAME(emitted)(how, m, NAME(source)(how, m, i)));
    if (i < head) NAME(emit_part)(how, m, i, head - i, out);
    const int64_t whole = head + (n - head) / line * line;
    for (i = head; i < whole; i += LANES) put(TYPE, 1, out + i * size, NAME(emitted)(how, m, NAME(source)(how, m, i)));
  }
  for (; i + LANES <= n; i += LANES) put(TYPE, 0, out + i * size, NAME(emitted)(how, m, NAME(source)(how, m, i)));
  if (i < n) NAME(emit_part)(how, m, i, n - i, out);
}

static void NAME(emit)(int how, int past, const emission *m, int64_t n, char *out) {
  switch (2 * how + (past != 0)) {
    case 2 * KEPT: NAME(emit_as)(KEPT, 0, m, n, out); break;
    case 2 * KEPT + 1: NAME(emit_as)(KEPT, 1, m, n, out); break;
    case 2 * AGAIN: NAME(emit_as)(AGAIN, 0, m, n, out); break;
    case 2 * AGAIN + 1: NAME(emit_as)(AGAIN, 1, m, n, out); break;
    case 2 * LOGARITHM: NAME(emit_as)(LOGARITHM, 0, m, n, out); break;
    case 2 * LOGARITHM + 1: NAME(emit_as)(LOGARITHM, 1, m, n, out); break;
    default: NAME(emit_as)(FILL, 0, m, n, out);
  }
}

// top_of is the maximum of n elements, -Inf if n is 0. With NaN elements it is NaN or the maximum of the
// others; their exponentials are NaN anyway.
static float NAME(top_of)(const char *x, int64_t n) {
#if defined(GA_TOP_OF_HALVES)
  if (TYPE != GA_FP32) return GA_TOP_OF_HALVES(TYPE, x, n);
#endif
  const int64_t size = ga_size(TYPE);
  lanes top[4];
  for (int t = 0; t < 4; t++) top[t] = all(-INFINITY);
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    _Pragma("GCC unroll 4") for (int t = 0; t < 4; t++) top[t] = GA_MAX(load(TYPE, x, i + t * LANES), top[t]);
  for (; i + LANES <= n; i += LANES) top[0] = GA_MAX(load(TYPE, x, i), top[0]);
  if (i < n) top[1] = GA_MAX(get_part(TYPE, x + i * size, n - i), top[1]);
  return largest_lane(GA_MAX(GA_MAX(top[0], top[1]), GA_MAX(top[2], top[3])));
}

// exponentials returns the sum of 2^((x-top)·k), and with keep stores them in kept. It prefetches n elements
// from ahead, which may be an invalid address.
GA_INLINE float NAME(exponentials)(const int keep, const char *x, int64_t n, float top, float k, float *kept, const char *ahead) {
  const int64_t size = ga_size(TYPE);
  lanes sum[2] = {{0}};
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    for (int64_t at = 0; at < 2 * LANES * size; at += 64) __builtin_prefetch(ahead + i * size + at, 0, 2);
    _Pragma("GCC unroll 2") for (int t = 0; t < 2; t++) {
      lanes e = softmax_exp2(TYPE, (load(TYPE, x, i + t * LANES) - top) * k);
      if (keep) store(GA_FP32, kept, i + t * LANES, e);
      sum[t] += e;
    }
  }
  for (; i < n; i += LANES) {
    lanes x_part = i + LANES <= n ? load(TYPE, x, i) : get_part(TYPE, x + i * size, n - i);
    lanes e = softmax_exp2(TYPE, (x_part - top) * k);
    if (keep) store(GA_FP32, kept, i, e);
    sum[0] += e;
  }
  return sum_of(sum[0] + sum[1]);
}

static float NAME(kept_exponentials)(const char *x, int64_t n, float top, float k, float *kept, const char *ahead) {
  return NAME(exponentials)(1, x, n, top, k, kept, ahead);
}

static float NAME(sum_exponentials)(const char *x, int64_t n, float top, float k, const char *ahead) {
  return NAME(exponentials)(0, x, n, top, k, NULL, ahead);
}

// sum_segments finds maximum and sum of segments [from, to) of a row, -Inf and 0 if fully masked. It stores
// exponentials in kept, unless NULL. If all elements of a segment are -Inf, they are relative to 0 and
// therefore zeros.
static void NAME(sum_segments)(const ga_softmax *s, int64_t row, int64_t from, int64_t to, ga_softmax_part *parts, float *kept) {
  const int64_t size = ga_size(TYPE), seen = seen_of(s, row), bytes = s->columns * size;
  const char *x = (const char *)s->in + row * bytes;
  float k = s->scale * GA_LOG2_E;
  for (int64_t i = from; i < to; i++) {
    int64_t at = i * SEGMENT, n = seen - at < SEGMENT ? seen - at : SEGMENT;
    parts[i] = (ga_softmax_part){-INFINITY, 0};
    if (n <= 0) continue;
    float top = NAME(top_of)(x + at * size, n), from_top = top == -INFINITY ? 0 : top;
    parts[i].top = top;
    // Prefetches the same place of the next row or a later one; for long rows, this row's next segment.
    const char *ahead = x + at * size + (bytes > FETCHED ? SEGMENT * size : bytes > AHEAD ? bytes : AHEAD);
    if (kept != NULL) parts[i].sum = NAME(kept_exponentials)(x + at * size, n, from_top, k, kept + (i - from) * SEGMENT, ahead);
    else parts[i].sum = NAME(sum_exponentials)(x + at * size, n, from_top, k, ahead);
  }
}

// write_segments writes segments [from, to) of a row, including masked columns. kept holds exponentials from
// segment from on, or is NULL.
static void NAME(write_segments)(const ga_softmax *s, int64_t row, int64_t from, int64_t to, const ga_softmax_part *parts,
                                 const float *kept, char *out, int past) {
  const int64_t size = ga_size(TYPE), seen = seen_of(s, row), bytes = s->columns * size;
  const char *x = (const char *)s->in + row * bytes;
  const int how = s->log ? LOGARITHM : kept != NULL ? KEPT : AGAIN;
  float k = s->scale * GA_LOG2_E;
  ga_softmax_part whole = joined(parts, s->segments, k);
  emission m = {.top = whole.top, .k = s->log ? s->scale : k, .by = 1 / whole.sum, .log = s->log ? logf(whole.sum) : 0};
  emission fill = {.by = s->log ? -INFINITY : 0};
  for (int64_t i = from; i < to; i++) {
    int64_t at = i * SEGMENT, end = at + SEGMENT < s->columns ? at + SEGMENT : s->columns;
    int64_t until = end < seen ? end : seen;
    if (at >= until) {
      NAME(emit)(FILL, past, &fill, end - at, out + at * size);
      continue;
    }
    m.x = x + at * size;
    if (how == KEPT) m.kept = kept + (i - from) * SEGMENT;
    if (how == KEPT && s->segments > 1) m.by = (float)(exp2(((double)parts[i].top - whole.top) * k) / whole.sum);
    NAME(emit)(how, past, &m, until - at, out + at * size);
    if (until < end) NAME(emit)(FILL, past, &fill, end - until, out + until * size);
  }
}

static void NAME(rows_together)(const ga_softmax *s, int tid, int nthreads, float *kept, ga_team *team) {
  int64_t from, to;
  ga_share(s->segments, nthreads, tid, &from, &to);
  for (int64_t row = 0; row < s->rows; row++) {
    // Two sets alternate, because threads are at most one row apart.
    ga_softmax_part *parts = ga_softmax_parts(s) + row % 2 * s->segments;
    NAME(sum_segments)(s, row, from, to, parts, kept);
    ga_barrier(team);
    NAME(write_segments)(s, row, from, to, parts, kept, (char *)s->out + row * s->columns * ga_size(TYPE), s->stream);
  }
}

#if defined(GA_PERMUTE)
// rows_in_vectors computes rows [row, end) of up to LANES columns, several per vector, each in a group of
// width lanes.
GA_INLINE void NAME(rows_in_vectors)(const int width, const ga_softmax *s, int64_t row, int64_t end, char *out) {
  const int64_t size = ga_size(TYPE), n = s->columns, side_by_side = LANES / width;
  const char *x = (const char *)s->in + row * n * size;
  float k = s->scale * GA_LOG2_E;
  // For each lane, the element's index in memory; and for each element in memory, its lane.
  int32_t lane_of[LANES], element_of[LANES], empty[LANES];
  for (int64_t l = 0; l < LANES; l++) {
    int64_t column = l % width;
    empty[l] = column < n ? 0 : -1;
    element_of[l] = (int32_t)(column < n ? l / width * n + column : 0);
    lane_of[l] = (int32_t)(l < side_by_side * n ? l / n * width + l % n : 0);
  }
  words spread, pack, unused;
  memcpy(&spread, element_of, sizeof spread);
  memcpy(&pack, lane_of, sizeof pack);
  memcpy(&unused, empty, sizeof unused);
  while (row < end) {
    int64_t rows = end - row < side_by_side ? end - row : side_by_side, count = rows * n;
    lanes v = count >= LANES ? load(TYPE, x, 0) : get_part(TYPE, x, count);
    v = pick(unused, all(-INFINITY), GA_PERMUTE(v, spread));
    lanes top = group_max(v, width), e = softmax_exp2(TYPE, (v - top) * k), sum = group_sum(e, width);
    lanes y = GA_PERMUTE(s->log ? (v - top) * s->scale - log_of(sum) : e / sum, pack);
    if (count >= LANES) put(TYPE, 0, out, y);
    else put_part(TYPE, out, count, y);
    row += rows;
    x += count * size;
    out += count * size;
  }
}

static void NAME(narrow_rows)(const ga_softmax *s, int64_t row, int64_t end, char *out) {
  if (s->columns == 1) NAME(rows_in_vectors)(1, s, row, end, out);
  else if (s->columns == 2) NAME(rows_in_vectors)(2, s, row, end, out);
  else if (s->columns <= 4) NAME(rows_in_vectors)(4, s, row, end, out);
  else if (s->columns <= 8) NAME(rows_in_vectors)(8, s, row, end, out);
  else NAME(rows_in_vectors)(LANES, s, row, end, out);
}

// row_in_registers computes a row with V visible vectors; the last may be partial.
GA_INLINE void NAME(row_in_registers)(const int V, const ga_softmax *s, const char *x, int64_t seen, char *out) {
  const int64_t size = ga_size(TYPE), last = seen - (V - 1) * LANES;
  float k = s->scale * GA_LOG2_E;
  lanes v[REGISTERS];
  for (int64_t at = 0; at < V * LANES * size; at += 64) __builtin_prefetch(x + at + AHEAD, 0, 2);
  _Pragma("GCC unroll 16") for (int i = 0; i < V - 1; i++) v[i] = load(TYPE, x, i * LANES);
  v[V - 1] = last == LANES ? load(TYPE, x, (V - 1) * LANES) : get_part(TYPE, x + (V - 1) * LANES * size, last);
  // Four of each hide latency.
  lanes tops[4], sums[4] = {{0}};
  for (int t = 0; t < 4; t++) tops[t] = v[t < V ? t : 0];
  _Pragma("GCC unroll 16") for (int i = 4; i < V; i++) tops[i % 4] = GA_MAX(v[i], tops[i % 4]);
  const lanes top = group_max(GA_MAX(GA_MAX(tops[0], tops[1]), GA_MAX(tops[2], tops[3])), LANES);
  if (s->log) {
    _Pragma("GCC unroll 16") for (int i = 0; i < V; i++) sums[i % 4] += softmax_exp2(TYPE, (v[i] - top) * k);
    lanes less = log_of(group_sum((sums[0] + sums[1]) + (sums[2] + sums[3]), LANES));
    _Pragma("GCC unroll 16") for (int i = 0; i < V; i++) v[i] = (v[i] - top) * s->scale - less;
  } else {
    _Pragma("GCC unroll 16") for (int i = 0; i < V; i++) {
      v[i] = softmax_exp2(TYPE, (v[i] - top) * k);
      sums[i % 4] += v[i];
    }
    lanes by = 1 / group_sum((sums[0] + sums[1]) + (sums[2] + sums[3]), LANES);
    _Pragma("GCC unroll 16") for (int i = 0; i < V; i++) v[i] *= by;
  }
  _Pragma("GCC unroll 16") for (int i = 0; i < V - 1; i++) put(TYPE, 0, out + i * LANES * size, v[i]);
  if (last == LANES) put(TYPE, 0, out + (V - 1) * LANES * size, v[V - 1]);
  else put_part(TYPE, out + (V - 1) * LANES * size, last, v[V - 1]);
}

static void NAME(short_rows)(const ga_softmax *s, int64_t row, int64_t end, char *out) {
  const int64_t bytes = s->columns * ga_size(TYPE);
  const char *x = (const char *)s->in + row * bytes;
  emission fill = {.by = s->log ? -INFINITY : 0};
  for (; row < end; row++, x += bytes, out += bytes) {
    int64_t seen = seen_of(s, row);
    switch ((seen + LANES - 1) / LANES) {
      case 1: NAME(row_in_registers)(1, s, x, seen, out); break;
      case 2: NAME(row_in_registers)(2, s, x, seen, out); break;
      case 3: NAME(row_in_registers)(3, s, x, seen, out); break;
      case 4: NAME(row_in_registers)(4, s, x, seen, out); break;
      case 5: NAME(row_in_registers)(5, s, x, seen, out); break;
      case 6: NAME(row_in_registers)(6, s, x, seen, out); break;
      case 7: NAME(row_in_registers)(7, s, x, seen, out); break;
#if LANES == 16
      case 8: NAME(row_in_registers)(8, s, x, seen, out); break;
      case 9: NAME(row_in_registers)(9, s, x, seen, out); break;
      case 10: NAME(row_in_registers)(10, s, x, seen, out); break;
      case 11: NAME(row_in_registers)(11, s, x, seen, out); break;
      case 12: NAME(row_in_registers)(12, s, x, seen, out); break;
      case 13: NAME(row_in_registers)(13, s, x, seen, out); break;
      case 14: NAME(row_in_registers)(14, s, x, seen, out); break;
      case 15: NAME(row_in_registers)(15, s, x, seen, out); break;
#endif
      default: NAME(row_in_registers)(REGISTERS, s, x, seen, out);
    }
    if (seen < s->columns) NAME(emit)(FILL, 0, &fill, s->columns - seen, out + seen * ga_size(TYPE));
  }
}
#endif

// rows_of_one computes rows [row, end) of one segment each. It finds the next row's maximum before writing a
// row, to hide the latency of the sum.
static void NAME(rows_of_one)(const ga_softmax *s, int64_t row, int64_t end, float *kept, char *out, int past) {
  const int64_t size = ga_size(TYPE), bytes = s->columns * size;
  const int how = s->log ? LOGARITHM : kept != NULL ? KEPT : AGAIN;
  const char *x = (const char *)s->in + row * bytes, *ahead = x + (bytes > AHEAD ? bytes : AHEAD);
  float k = s->scale * GA_LOG2_E, top = row < end ? NAME(top_of)(x, seen_of(s, row)) : 0;
  emission fill = {.by = s->log ? -INFINITY : 0};
  for (; row < end; row++, x += bytes, ahead += bytes, out += bytes) {
    int64_t seen = seen_of(s, row);
    float from_top = top == -INFINITY ? 0 : top;
    float sum = kept != NULL ? NAME(kept_exponentials)(x, seen, from_top, k, kept, ahead) : NAME(sum_exponentials)(x, seen, from_top, k, ahead);
    float next = row + 1 < end ? NAME(top_of)(x + bytes, seen_of(s, row + 1)) : 0;
    emission m = {.kept = kept, .x = x, .top = top, .k = s->log ? s->scale : k, .by = 1 / sum, .log = s->log ? logf(sum) : 0};
    NAME(emit)(how, past, &m, seen, out);
    if (seen < s->columns) NAME(emit)(FILL, past, &fill, s->columns - seen, out + seen * size);
    top = next;
  }
}

static void NAME(some_rows)(const ga_softmax *s, int64_t row, int64_t end, ga_softmax_part *parts, float *kept, char *out, int past) {
  const int64_t bytes = s->columns * ga_size(TYPE);
#if defined(GA_PERMUTE)
  if (s->columns <= LANES && s->queries == 0) {
    NAME(narrow_rows)(s, row, end, out);
    return;
  }
  if (s->columns <= REGISTERS * LANES) {
    NAME(short_rows)(s, row, end, out);
    return;
  }
#endif
  if (s->segments == 1) {
    NAME(rows_of_one)(s, row, end, kept, out, past);
    return;
  }
  for (; row < end; row++, out += bytes) {
    NAME(sum_segments)(s, row, 0, s->segments, parts, kept);
    NAME(write_segments)(s, row, 0, s->segments, parts, kept, out, past);
  }
}

// softmax computes a thread's rows, or its part of all rows. Short rows with non-temporal stores go through a
// buffer.
static void NAME(softmax)(const ga_softmax *s, int tid, int nthreads, char *scratch, ga_team *team, int keep) {
  const int64_t bytes = s->columns * ga_size(TYPE);
  float *kept = keep && !s->log ? (float *)(void *)(scratch + STAGE + 64) : NULL;
  if (together(s, nthreads)) {
    NAME(rows_together)(s, tid, nthreads, kept, team);
  } else {
    ga_softmax_part *parts = ga_softmax_parts(s) + tid * s->segments;
    int64_t row, end, until;
    ga_share(s->rows, nthreads, tid, &row, &end);
    int whole = bytes % 64 == 0 && (uintptr_t)s->out % 64 == 0; // lines
    int staged = s->stream && bytes < (whole ? DIRECT_LINES : DIRECT);
    for (; row < end; row = until) {
      until = staged && row + STAGE / bytes < end ? row + STAGE / bytes : end;
      char *out = (char *)s->out + row * bytes, *stage = scratch + (uintptr_t)out % 64;
      NAME(some_rows)(s, row, until, parts, kept, staged ? stage : out, s->stream && !staged);
      if (staged) copy_past(out, stage, (until - row) * bytes);
    }
  }
  if (s->stream) GA_FENCE();
}

static void NAME(naive)(const ga_softmax *s, int tid, int nthreads, char *scratch, ga_team *team, int keep) {
  (void)scratch;
  (void)team;
  (void)keep;
  const int64_t bytes = s->columns * ga_size(TYPE);
  int64_t row, end;
  ga_share(s->rows, nthreads, tid, &row, &end);
  for (; row < end; row++) {
    const char *x = (const char *)s->in + row * bytes;
    char *out = (char *)s->out + row * bytes;
    int64_t seen = seen_of(s, row);
    float k = s->scale * GA_LOG2_E, top = NAME(top_of)(x, seen), sum = NAME(sum_exponentials)(x, seen, top, k, x);
    emission m = {.x = x, .top = top, .k = s->log ? s->scale : k, .by = 1 / sum, .log = logf(sum)};
    emission fill = {.by = s->log ? -INFINITY : 0};
    NAME(emit)(s->log ? LOGARITHM : AGAIN, 0, &m, seen, out);
    if (seen < s->columns) NAME(emit)(FILL, 0, &fill, s->columns - seen, out + seen * ga_size(TYPE));
  }
}
