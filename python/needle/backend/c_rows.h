// The reduction of a row, in the order of the native kernels: element i of a block of `block`
// elements goes to lane i % LANES, the lanes meet in a tree, and blocks are combined in TOTAL.

static inline T ROW(const T *x, i64 n, i64 block) {
  TOTAL total = IDENTITY;
  for (i64 start = 0; start < n; start += BLOCK) {
    const i64 m = n - start < BLOCK ? n - start : BLOCK;
    T lanes[LANES];
    for (int l = 0; l < LANES; ++l) lanes[l] = IDENTITY;
    i64 i = 0;
    for (; i + LANES <= m; i += LANES) {
      for (int l = 0; l < LANES; ++l) lanes[l] = STEP(T)(lanes[l], x[start + i + l]);
    }
    for (int l = 0; i + l < m; ++l) lanes[l] = STEP(T)(lanes[l], x[start + i + l]);
    for (int half = LANES / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] = STEP(T)(lanes[l], lanes[l + half]);
    }
    total = STEP(TOTAL)(total, (TOTAL)lanes[0]);
  }
  return (T)total;
}
