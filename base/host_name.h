// The name of this machine, and the address by which others reach it.
#pragma once

#include <cstdint>
#include <string>

namespace composer {

/// "localhost" where the machine has no name.
std::string host_name();

/// The address, in digits, of the interface by which this machine reaches `host`. Where `host` is
/// this machine, the address of an interface that other machines can reach. RunError when the name
/// is unknown or there is no route.
std::string own_address_towards(const std::string& host, uint16_t port);

}  // namespace composer
