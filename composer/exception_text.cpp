#include "composer/exception_text.h"

#include <c10/util/Exception.h>

#include "composer/logging/url_secrets.h"

namespace composer {

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return without_secrets(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return without_secrets(error.what());
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace composer
