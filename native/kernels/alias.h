// Inputs that are the output's own memory.
#pragma once

#include "entries.h"
#include "loops.h"

namespace needle::NEEDLE_ISA {
namespace {

// v, to be read while `out` is written: v itself, or a compact copy when both are the same memory.
// (Operands overlap in no other way.)
class Unaliased {
 public:
  Unaliased(const View& v, const View& out)
      : view_(v), scratch_(v.data == out.data ? v.size() * item_size(v.dtype) : 0) {
    if (v.data != out.data) return;
    view_.data = scratch_.as<char>();
    view_.set_compact_strides();
    copy(view_, v);
  }

  const View& view() const { return view_; }

 private:
  View view_;
  Scratch<4096> scratch_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
