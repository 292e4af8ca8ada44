// What of an address is nobody else's business.
#pragma once

#include <string>

namespace composer {

/// The text with *** for user and password (user:password@) and for the query of each address of a
/// web server in it: signed addresses are secrets.
std::string without_secrets(std::string text);

/// The same of a text that is one address as a whole, spaces and all, where it begins as one.
std::string address_without_secrets(std::string text);

}  // namespace composer
