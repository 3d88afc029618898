// bool, a byte that is 0 or 1.

ELEMENT b8 add_b8(b8 x, b8 y) { return x | y; }
ELEMENT b8 abs_b8(b8 x) { return x; }
ELEMENT b8 invert_b8(b8 x) { return x ^ 1; }
ELEMENT b8 floor_b8(b8 x) { return x; }
ELEMENT b8 ceil_b8(b8 x) { return x; }
ELEMENT b8 round_b8(b8 x) { return x; }
ELEMENT b8 relu_b8(b8 x) { return x; }
ELEMENT b8 isnan_b8(b8 x) { return (void)x, 0; }
ELEMENT b8 isinf_b8(b8 x) { return (void)x, 0; }
