// libjpeg with errors that jump back to its caller.
#pragma once

#include <csetjmp>
#include <cstdio>

// jpeglib.h needs <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

namespace composer {

/// libjpeg's error manager: an error jumps to `jump`; the first warning is kept. libjpeg's part
/// must be the first member.
struct LibjpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  bool strict = false;  ///< warnings are errors
  char message[JMSG_LENGTH_MAX] = "";
  char warning[JMSG_LENGTH_MAX] = "";
  bool ended_early = false;
};

/// Returns the value for a codec's `err`.
jpeg_error_mgr* install(LibjpegErrors& errors);

}  // namespace composer
