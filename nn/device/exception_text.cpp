#include "nn/device/exception_text.h"

#include <c10/util/Exception.h>

#include <typeinfo>
#include <utility>

#include "base/error.h"
#include "base/url_secrets.h"
#include "nn/device/device.h"

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

void rethrow_of(const std::string& component, std::string_view where) {
  const auto named = [&](const std::string& words) {
    return words.find(component) != words.npos
               ? words
               : component + " at " + std::string(where) + ": " + words;
  };
  try {
    throw;
  } catch (const UserError& error) {
    if (typeid(error) != typeid(UserError)) throw;
    auto problems = error.problems();
    for (auto& problem : problems) problem = named(problem);
    throw UserError(std::move(problems));
  } catch (const RunError& error) {
    if (typeid(error) != typeid(RunError)) throw;
    throw RunError(named(error.what()));
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw RunError(named(text_of(std::current_exception())));
  } catch (...) {
    throw RunError(named("it threw something other than a std::exception"));
  }
}

}  // namespace composer
