// Secrets in the addresses of web servers.
#pragma once

#include <string>

namespace composer {

/// The text with *** in place of user and password (user:password@) and of the query of each web
/// server's address in it: the query of a signed address is a secret.
std::string without_secrets(std::string text);

/// without_secrets() for a text that is one whole address, which may have spaces.
std::string address_without_secrets(std::string text);

}  // namespace composer
