// By which address other machines reach this one.
#pragma once

#include <cstdint>
#include <string>

namespace composer {

/// Of the interface by which this machine reaches `host`, as digits; where that is itself, of one
/// that others can reach. RunError when the name is unknown or there is no way.
std::string own_address_towards(const std::string& host, uint16_t port);

}  // namespace composer
