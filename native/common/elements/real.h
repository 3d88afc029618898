// Floating numbers of type T (f32, f64): what is exact. OF(name) is name_T; C(name) is the C
// library's function for T.

ELEMENT T OF(abs)(T x) { return C(fabs)(x); }
ELEMENT T OF(floor)(T x) { return C(floor)(x); }
ELEMENT T OF(ceil)(T x) { return C(ceil)(x); }
ELEMENT T OF(round)(T x) { return C(rint)(x); }
ELEMENT T OF(sqrt)(T x) { return C(sqrt)(x); }
ELEMENT T OF(sign)(T x) { return x != x ? x : (T)((x > 0) - (x < 0)); }
ELEMENT b8 OF(isinf)(T x) { return C(fabs)(x) == (T)INFINITY; }

// Python's rule: the remainder has the sign of the divisor.
ELEMENT T OF(remainder)(T x, T y) {
  const T rest = C(fmod)(x, y);
  if (y == 0) return rest;  // NaN
  if (rest == 0) return C(copysign)((T)0, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

ELEMENT T OF(floor_divide)(T x, T y) {
  if (y == 0) return x / y;
  const T rest = C(fmod)(x, y);
  T quotient = (x - rest) / y;  // a whole number, up to rounding
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return C(copysign)((T)0, x / y);
  const T down = C(floor)(quotient);
  return quotient - down > (T)0.5 ? down + 1 : down;
}

#undef T
#undef OF
#undef C
