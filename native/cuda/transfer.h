// Copies between the host's memory and the device's.
#pragma once

#include "driver.h"

namespace needle::cuda {

// The bytes have been read when this returns, but reach the device in the order of the stream:
// they wait in pinned memory, so that the host does not.
void copy_to_device(Address out, const void* host, size_t bytes);

// Waits for everything that was handed over before.
void copy_to_host(void* out, Address device, size_t bytes);

}  // namespace needle::cuda
