// What convolutions see, as a matrix of positions by cells (tap, channel):
//
//   windows[position, cell] = data[image, place, channel], or 0 where the place is none
//
// where along each axis   place = (position * multiply + tap * step + offset) / divide
//
// if that is whole and on the axis. With divide = 1 these are the inputs that outputs meet; with
// multiply = 1 and a negative step, the outputs that inputs meet. Nothing of it is stored.
#pragma once

#include "product.cuh"

namespace needle {

constexpr i64 NOWHERE = i64(1) << 63;  // strides, and with them places, may be negative

template <int kAxes>
struct Geometry {
  i64 image_stride, strides[kAxes], channel_stride;
  i32 sizes[kAxes], multiply[kAxes], step[kAxes], offset[kAxes], divide[kAxes];
  u32 positions[kAxes], taps[kAxes];
  u32 channels, images;

  ELEMENT u32 rows() const {
    u32 n = images;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) n *= positions[axis];
    return n;
  }
  ELEMENT u32 cells() const {
    u32 n = channels;
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) n *= taps[axis];
    return n;
  }

  // Where it lies in the data, or NOWHERE.
  ELEMENT i64 place(u32 position, u32 cell) const {
    u32 tap = cell / channels;
    i64 place = static_cast<i64>(cell - tap * channels) * channel_stride;
    bool is_there = true;
#pragma unroll
    for (int axis = kAxes - 1; axis >= 0; --axis) {
      const u32 rest = position / positions[axis], other_taps = tap / taps[axis];
      const i32 p = static_cast<i32>(position - rest * positions[axis]);
      const i32 t = static_cast<i32>(tap - other_taps * taps[axis]);
      const i32 at = p * multiply[axis] + t * step[axis] + offset[axis];
      const i32 whole = divide[axis] == 1 ? at : at / divide[axis];
      is_there = is_there && at >= 0 && whole * divide[axis] == at && whole < sizes[axis];
      place += whole * strides[axis];
      position = rest;
      tap = other_taps;
    }
    place += position * image_stride;
    return is_there ? place : NOWHERE;
  }
};

// The windows as a factor of a product: the left one, or (kTurned) its transpose. `wide`: words run
// along channels, which are aligned and not cut.
template <class S, class T, int kAxes, bool kTurned>
struct Windows {
  const T* data;
  const Geometry<kAxes>& geometry;
  u32 sides, depth;
  bool by_depth = !kTurned, wide;

  ELEMENT Windows(const T* data, const Geometry<kAxes>& geometry) : data(data), geometry(geometry) {
    sides = kTurned ? geometry.cells() : geometry.rows();
    depth = kTurned ? geometry.rows() : geometry.cells();
    wide = geometry.image_stride % WORD<S> == 0 &&
           fits_words<S>(data, geometry.channel_stride, geometry.channels);
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) wide = wide && geometry.strides[axis] % WORD<S> == 0;
  }

  ELEMENT i64 place(u32 side, u32 k) const {
    if (side >= sides || k >= depth) return NOWHERE;
    return kTurned ? geometry.place(k, side) : geometry.place(side, k);
  }

  ELEMENT void fetch(S (&word)[WORD<S>], u32 side, u32 k) const {
    if (wide) {
      const i64 from = place(side, k);
      Word<T, WORD<S>> found = {};
      if (from != NOWHERE) found = *reinterpret_cast<const Word<T, WORD<S>>*>(data + from);
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) word[i] = static_cast<S>(loaded(found.each[i]));
    } else {
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) {
        const i64 from = by_depth ? place(side, k + i) : place(side + i, k);
        word[i] = from != NOWHERE ? static_cast<S>(loaded(data[from])) : S(0);
      }
    }
  }
};

// Filters as the right factor: rows are cells (tap, channel), columns what a window is turned into.
template <class S, class T>
struct Filters {
  const T* data;
  i64 tap_stride, channel_stride, side_stride;
  u32 sides, depth, channels;
  bool by_depth, wide;

  ELEMENT Filters(const T* data, i64 tap_stride, i64 channel_stride, i64 side_stride, u32 sides,
                  u32 depth, u32 channels)
      : data(data),
        tap_stride(tap_stride),
        channel_stride(channel_stride),
        side_stride(side_stride),
        sides(sides),
        depth(depth),
        channels(channels) {
    by_depth = channel_stride == 1 && side_stride != 1;
    const i64 along = by_depth ? channel_stride : side_stride;
    const i64 across = by_depth ? side_stride : channel_stride;
    wide = across % WORD<S> == 0 && tap_stride % WORD<S> == 0 &&
           fits_words<S>(data, along, by_depth ? channels : sides);
  }

  ELEMENT i64 place(u32 side, u32 k) const {
    const u32 tap = k / channels;
    return tap * tap_stride + (k - tap * channels) * channel_stride + side * side_stride;
  }

  ELEMENT void fetch(S (&word)[WORD<S>], u32 side, u32 k) const {
    if (wide) {
      Word<T, WORD<S>> found = {};
      if (side < sides && k < depth) {
        found = *reinterpret_cast<const Word<T, WORD<S>>*>(data + place(side, k));
      }
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) word[i] = static_cast<S>(loaded(found.each[i]));
    } else {
#pragma unroll
      for (int i = 0; i < WORD<S>; ++i) {
        const u32 s = by_depth ? side : side + i, d = by_depth ? k + i : k;
        word[i] = s < sides && d < depth ? static_cast<S>(loaded(data[place(s, d)])) : S(0);
      }
    }
  }
};

// A convolution: data of out, the data that windows are on and the other factor, for every group.
template <int kAxes>
struct Convolution {
  Operands<3, 1> x;
  Geometry<kAxes> geometry;
  i64 out_row, out_column, part_stride;
  i64 tap_stride, depth_stride, side_stride;  // of the other factor
  u32 columns, parts, part;
};

}  // namespace needle
