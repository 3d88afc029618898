// The one thread pool behind parallel_for.
#pragma once

#include "parallel.h"

namespace needle {

int get_num_threads();
void set_num_threads(int count);  // waits for a running parallel_for of another thread

// Thrown by parallel_for when the interrupt hook asks to stop.
struct Interrupted {};

// The hook runs on the calling thread, between pieces, at most every 50 ms; true means stop.
void set_interrupt_hook(bool (*hook)());

// Starts the 50 ms afresh; the bindings call it when a kernel begins.
void restart_interrupt_clock();

}  // namespace needle
