// Whether this code is compiled with AddressSanitizer. g++ defines a macro, clang answers __has_feature().
#pragma once

namespace xpurun::base {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace xpurun::base
