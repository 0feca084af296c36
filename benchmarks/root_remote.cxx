// The columns of the Analysis Grand Challenge in several files, summed by RDataFrame, of RNTuples and TTrees alike.

#include "agc_sums.hxx"

#include <TROOT.h>

namespace bench {

/// The 15 sums. With more than one thread, ROOT's implicit multi-threading is on.
inline std::vector<double>
AgcSumsOfFiles(const std::vector<std::string> &files, const std::string &name, unsigned int threads)
{
   if (threads > 1 && !ROOT::IsImplicitMTEnabled())
      ROOT::EnableImplicitMT(threads);
   return Sums(ROOT::RDataFrame(name, files));
}

} // namespace bench
