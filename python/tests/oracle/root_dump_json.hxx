// Pieces of JSON text.
#ifndef FEMTOBARN_ROOT_DUMP_JSON
#define FEMTOBARN_ROOT_DUMP_JSON

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace oracle {

inline bool ValidUtf8(const std::string &s)
{
   std::size_t i = 0;
   while (i < s.size()) {
      unsigned char c = s[i];
      int n = c < 0x80 ? 0 : (c >> 5) == 6 ? 1 : (c >> 4) == 14 ? 2 : (c >> 3) == 30 ? 3 : -1;
      if (n < 0 || i + n >= s.size())
         return false;
      std::uint32_t code = n == 0 ? c : n == 1 ? c & 0x1f : n == 2 ? c & 0x0f : c & 0x07;
      for (int k = 1; k <= n; ++k) {
         unsigned char d = s[i + k];
         if ((d & 0xc0) != 0x80)
            return false;
         code = (code << 6) | (d & 0x3f);
      }
      if ((n == 1 && code < 0x80) || (n == 2 && code < 0x800) || (n == 3 && (code < 0x10000 || code > 0x10ffff)) ||
          (code >= 0xd800 && code < 0xe000))
         return false;
      i += n + 1;
   }
   return true;
}

inline void PutBytes(std::string &out, const unsigned char *data, std::size_t n)
{
   out += '[';
   for (std::size_t i = 0; i < n; ++i) {
      if (i)
         out += ',';
      out += std::to_string(static_cast<unsigned>(data[i]));
   }
   out += ']';
}

inline void PutString(std::string &out, const std::string &s)
{
   if (!ValidUtf8(s)) {
      out += "{\"bytes\":";
      PutBytes(out, reinterpret_cast<const unsigned char *>(s.data()), s.size());
      out += '}';
      return;
   }
   out += '"';
   for (unsigned char c : s) {
      if (c == '"' || c == '\\') {
         out += '\\';
         out += c;
      } else if (c < 0x20 || c == 0x7f) {
         char buf[8];
         std::snprintf(buf, sizeof(buf), "\\u%04x", c);
         out += buf;
      } else {
         out += c;
      }
   }
   out += '"';
}

inline void PutFloat(std::string &out, float v)
{
   std::uint32_t bits;
   std::memcpy(&bits, &v, 4);
   char buf[16];
   std::snprintf(buf, sizeof(buf), "\"0x%08x\"", bits);
   out += buf;
}

inline void PutDouble(std::string &out, double v)
{
   std::uint64_t bits;
   std::memcpy(&bits, &v, 8);
   char buf[24];
   std::snprintf(buf, sizeof(buf), "\"0x%016llx\"", static_cast<unsigned long long>(bits));
   out += buf;
}

} // namespace oracle

#endif
