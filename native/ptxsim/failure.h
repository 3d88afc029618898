// The driver's results, and the failure that ends a launch.
#pragma once

#include <string>

#include "base.h"

namespace ptxsim {

// The driver's results, as cuda.h numbers them.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kAssert = 710,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
};

struct Failure {
  Result result;
  std::string text;
};

}  // namespace ptxsim
