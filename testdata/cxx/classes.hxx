// User classes, streamer-mode fields, SoA collections, proxied collections, untyped records and collections.
#ifndef FEMTOBARN_TESTDATA_CLASSES
#define FEMTOBARN_TESTDATA_CLASSES

#include "double32_types.hxx"
#include "random.hxx"

#include <ROOT/RField/RFieldSoA.hxx>
#include <TCollectionProxyInfo.h>
#include <TH1.h>
#include <TVirtualCollectionProxy.h>

namespace fb {

#define FB_MEMBERS(CLASS, ...)                                                                                          \
   template <>                                                                                                          \
   struct Members_<CLASS> {                                                                                             \
      template <typename... Ts>                                                                                         \
      static void All(Rng &rng, Ts &...members)                                                                         \
      {                                                                                                                 \
         (void)rng;                                                                                                     \
         (Randomize(members, rng), ...);                                                                                \
      }                                                                                                                 \
      static void Fill(CLASS &v, Rng &rng)                                                                              \
      {                                                                                                                 \
         (void)v;                                                                                                       \
         All(rng __VA_OPT__(, ) __VA_ARGS__);                                                                           \
      }                                                                                                                 \
   };

FB_MEMBERS(Empty)
FB_MEMBERS(BaseA, v.id, v.weight)
FB_MEMBERS(BaseB, v.id, v.tag)
FB_MEMBERS(Point3, static_cast<Point &>(v), v.z)
FB_MEMBERS(Derived, static_cast<BaseA &>(v), static_cast<BaseB &>(v), v.id, v.values)
FB_MEMBERS(Deeper, static_cast<Derived &>(v), v.id, v.corner)
FB_MEMBERS(FromEmpty, v.x)
FB_MEMBERS(Transient, v.kept, v.dropped)
FB_MEMBERS(Outer::Inner, v.a, v.b)
FB_MEMBERS(Outer, v.one, v.many, v.maybe, v.two)
FB_MEMBERS(CArrays, v.line, v.grid, v.cube, v.points, v.words)
FB_MEMBERS(Members, v.flag, v.letter, v.raw, v.bits, v.counter, v.level, v.color, v.owned, v.pair, v.tuple, v.either, v.index,
           v.unique, v.rvec, v.switches)
FB_MEMBERS(WithTObject, v.value)
FB_MEMBERS(ForcedBlob, v.number, v.text, v.values)
FB_MEMBERS(HoldsBlob, v.before, v.blob, v.after)

inline void WriteClasses(const std::string &path, const RNTupleWriteOptions &options)
{
   Recipe r;
   r.Add<Point>("point");
   r.Add<Point3>("point3");
   r.Add<Derived>("derived");
   r.Add<Deeper>("deeper");
   r.Add<FromEmpty>("from_empty");
   r.Add<Empty>("empty");
   r.Add<std::vector<Empty>>("empties");
   r.Add<Transient>("transient");
   r.Add<Outer>("outer");
   r.Add<CArrays>("arrays");
   r.Add<Members>("members");
   r.Add<WithTObject>("tobject");
   r.Add<std::vector<Deeper>>("deepers");
   r.Add<std::vector<std::vector<Point3>>>("point3s");
   r.Add<std::optional<Derived>>("maybe_derived");
   r.Add<std::variant<Point, std::vector<Derived>>>("either_class");
   r.Add<std::array<Point, 2>>("two_points");
   r.Add<std::map<std::string, std::vector<std::int32_t>>>("map_vector");
   WriteRecipe(std::move(r), "classes", path, 24, 10, options, 77);
}

// ---- Double32_t (Float16_t is no type that RNTuple knows)

inline void WriteDouble32(const std::string &path)
{
   Recipe r;
   r.model->AddField(RFieldBase::Create("low", "fb::Low").Unwrap());
   r.model->AddField(RFieldBase::Create("d32", "Double32_t").Unwrap());
   r.model->AddField(RFieldBase::Create("d32s", "std::vector<Double32_t>").Unwrap());
   r.fills.emplace_back([](ROOT::REntry &entry, Rng &rng) {
      auto &low = *entry.GetPtr<Low>("low");
      Randomize(low.d, rng);
      Randomize(low.v, rng);
      Randomize(low.a, rng);
      Randomize(*static_cast<double *>(entry.GetPtr<void>("d32").get()), rng);
      Randomize(*static_cast<std::vector<double> *>(entry.GetPtr<void>("d32s").get()), rng);
   });
   WriteRecipe(std::move(r), "double32", path, 20, 8, Options(), 78);
}

// ---- streamer mode

inline void FillBlob(Blob &blob, Rng &rng)
{
   blob.Clear();
   blob.number = static_cast<std::int32_t>(rng.Below(1000));
   for (auto n = rng.Below(3); n > 0; --n) {
      auto *leaf = new Leaf();
      leaf->n = static_cast<std::int32_t>(n);
      leaf->label = Word_(rng);
      blob.nodes.push_back(rng.Below(2) ? leaf : new Node(*leaf));
      if (blob.nodes.back() != leaf)
         delete leaf;
   }
}

inline void WriteStreamers(const std::string &path)
{
   Recipe r;
   r.Add<std::int32_t>("number");
   r.model->AddField(std::make_unique<ROOT::RStreamerField>("blob", "fb::Blob"));
   r.AddNamed<ForcedBlob>("forced", "fb::ForcedBlob");
   r.AddNamed<std::vector<ForcedBlob>>("forceds", "std::vector<fb::ForcedBlob>");
   r.Add<HoldsBlob>("holds");
   r.model->AddField(std::make_unique<ROOT::RStreamerField>("named", "TNamed"));
   r.model->AddField(std::make_unique<ROOT::RStreamerField>("histogram", "TH1F"));
   r.fills.emplace_back([](ROOT::REntry &entry, Rng &rng) {
      FillBlob(*entry.GetPtr<Blob>("blob"), rng);
      auto &named = *entry.GetPtr<TNamed>("named");
      named.SetNameTitle(Word_(rng).c_str(), Word_(rng).c_str());
      auto &histogram = *entry.GetPtr<TH1F>("histogram");
      histogram.SetDirectory(nullptr);
      histogram.SetBins(3, 0, 3);
      histogram.Fill(rng.Range(0, 3));
   });
   WriteRecipe(std::move(r), "streamers", path, 9, 4, Options(), 79);
}

// ---- SoA

inline void WriteSoA(const std::string &path)
{
   Recipe r;
   r.model->AddField(std::make_unique<ROOT::Experimental::RSoAField>("hits", "FbHitSoA"));
   r.fills.emplace_back([](ROOT::REntry &entry, Rng &rng) {
      auto &soa = *entry.GetPtr<FbHitSoA>("hits");
      const auto n = Length(rng);
      soa.energy.resize(n);
      soa.channel.resize(n);
      soa.samples.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
         Randomize(soa.energy[i], rng);
         Randomize(soa.channel[i], rng);
         Randomize(soa.samples[i], rng);
      }
   });
   WriteRecipe(std::move(r), "soa", path, 20, 8, Options(), 80);
}

// ---- proxied collections

template <typename B>
class BagProxy : public TVirtualCollectionProxy {
   using Item = typename B::ValueType;
   B *fBag = nullptr;
   static TClass *BagClass() { return TClass::GetClass(typeid(B)); }

public:
   BagProxy() : TVirtualCollectionProxy(BagClass()) {}
   TVirtualCollectionProxy *Generate() const override { return new BagProxy(); }
   Int_t GetCollectionType() const override { return ROOT::kSTLvector; }
   ULong_t GetIncrement() const override { return sizeof(Item); }
   UInt_t Sizeof() const override { return sizeof(B); }
   bool HasPointers() const override { return false; }
   TClass *GetValueClass() const override
   {
      return std::is_fundamental_v<Item> ? nullptr : TClass::GetClass(typeid(Item));
   }
   EDataType GetType() const override { return std::is_same_v<Item, float> ? kFloat_t : kOther_t; }
   void PushProxy(void *object) override { fBag = static_cast<B *>(object); }
   void PopProxy() override { fBag = nullptr; }
   void *At(UInt_t i) override { return &fBag->items[i]; }
   void Clear(const char * = "") override { fBag->items.clear(); }
   UInt_t Size() const override { return fBag->items.size(); }
   void *Allocate(UInt_t n, bool) override
   {
      fBag->items.resize(n);
      return fBag;
   }
   void Commit(void *) override {}
   void Insert(const void *data, void *container, size_t n) override
   {
      auto *items = static_cast<const Item *>(data);
      auto &bag = *static_cast<B *>(container);
      bag.items.insert(bag.items.end(), items, items + n);
   }
   TStreamerInfoActions::TActionSequence *GetConversionReadMemberWiseActions(TClass *, Int_t) override { return nullptr; }
   TStreamerInfoActions::TActionSequence *GetReadMemberWiseActions(Int_t) override { return nullptr; }
   TStreamerInfoActions::TActionSequence *GetWriteMemberWiseActions() override { return nullptr; }
   CreateIterators_t GetFunctionCreateIterators(bool) override
   {
      return [](void *collection, void **begin, void **end, TVirtualCollectionProxy *) {
         auto &items = static_cast<B *>(collection)->items;
         *begin = items.data();
         *end = items.data() + items.size();
      };
   }
   CopyIterator_t GetFunctionCopyIterator(bool) override { return nullptr; }
   Next_t GetFunctionNext(bool) override
   {
      return [](void *, const void *) -> void * { return nullptr; };
   }
   DeleteIterator_t GetFunctionDeleteIterator(bool) override { return nullptr; }
   DeleteTwoIterators_t GetFunctionDeleteTwoIterators(bool) override
   {
      return [](void *, void *) {};
   }
};

template <typename B>
void AddBag(Recipe &r, const std::string &name, const std::string &type)
{
   TClass::GetClass(typeid(B))->CopyCollectionProxy(BagProxy<B>());
   r.model->AddField(std::make_unique<ROOT::RProxiedCollectionField>(name, type));
   r.fills.emplace_back([name](ROOT::REntry &entry, Rng &rng) { Randomize(entry.GetPtr<B>(name)->items, rng); });
}

inline void WriteProxied(const std::string &path)
{
   Recipe r;
   AddBag<Bag<float>>(r, "bag_f32", "fb::Bag<float>");
   AddBag<Bag<Point>>(r, "bag_point", "fb::Bag<fb::Point>");
   WriteRecipe(std::move(r), "proxied", path, 20, 8, Options(), 81);
}

// ---- untyped records and collections

struct Track {
   float pt = 0;
   std::int8_t charge = 0;
   std::vector<std::int32_t> hits;
};

struct Vertex {
   double z = 0;
   std::vector<Track> tracks;
   struct {
      std::uint16_t flags = 0;
      bool good = false;
   } quality;
};

FB_MEMBERS(Track, v.pt, v.charge, v.hits)
FB_MEMBERS(Vertex, v.z, v.tracks, v.quality.flags, v.quality.good)

template <typename... Fields>
std::unique_ptr<ROOT::RRecordField> Record(const std::string &name, Fields... fields)
{
   std::vector<std::unique_ptr<RFieldBase>> items;
   (items.emplace_back(std::move(fields)), ...);
   return std::make_unique<ROOT::RRecordField>(name, std::move(items));
}

template <typename V>
std::unique_ptr<RFieldBase> Field(const std::string &name)
{
   return std::make_unique<ROOT::RField<V>>(name);
}

inline std::unique_ptr<RFieldBase> TrackRecord(const std::string &name)
{
   return Record(name, Field<float>("pt"), Field<std::int8_t>("charge"), Field<std::vector<std::int32_t>>("hits"));
}

inline std::unique_ptr<RFieldBase> VertexRecord(const std::string &name)
{
   return Record(name, Field<double>("z"), ROOT::RVectorField::CreateUntyped("tracks", TrackRecord("_0")),
                 Record("quality", Field<std::uint16_t>("flags"), Field<bool>("good")));
}

template <typename V>
void Project(RNTupleModel &model, const std::string &name, std::map<std::string, std::string> mapping)
{
   auto map = [mapping](const std::string &path) { return mapping.at(path); };
   model.AddProjectedField(std::make_unique<ROOT::RField<V>>(name), map).ThrowOnError();
}

inline void WriteUntyped(const std::string &path, const RNTupleWriteOptions &options)
{
   Recipe r;
   r.AddField<Track>(TrackRecord("track"));
   r.AddField<std::vector<Track>>(ROOT::RVectorField::CreateUntyped("tracks", TrackRecord("_0")));
   r.AddField<Vertex>(VertexRecord("vertex"));
   r.AddField<std::vector<Vertex>>(ROOT::RVectorField::CreateUntyped("vertices", VertexRecord("_0")));
   r.AddField<Empty>(Record("nothing"));
   r.Add<float>("scalar");
   r.Add<std::vector<std::pair<std::int32_t, float>>>("pairs");
   r.Add<std::vector<Point>>("points");
   using Size32 = ROOT::RNTupleCardinality<std::uint32_t>;
   using Size64 = ROOT::RNTupleCardinality<std::uint64_t>;
   auto &model = *r.model;
   Project<Size32>(model, "n_tracks32", {{"n_tracks32", "tracks"}});
   Project<Size64>(model, "n_tracks64", {{"n_tracks64", "tracks"}});
   Project<Size32>(model, "n_hits", {{"n_hits", "track.hits"}});
   Project<float>(model, "alias", {{"alias", "scalar"}});
   Project<float>(model, "track_pt", {{"track_pt", "track.pt"}});
   Project<std::vector<float>>(model, "tracks_pt", {{"tracks_pt", "tracks"}, {"tracks_pt._0", "tracks._0.pt"}});
   Project<ROOT::RVec<std::int8_t>>(model, "tracks_charge",
                                    {{"tracks_charge", "tracks"}, {"tracks_charge._0", "tracks._0.charge"}});
   Project<std::vector<std::vector<std::int32_t>>>(
      model, "tracks_hits",
      {{"tracks_hits", "tracks"}, {"tracks_hits._0", "tracks._0.hits"}, {"tracks_hits._0._0", "tracks._0.hits._0"}});
   Project<std::vector<std::vector<float>>>(model, "vertices_pt",
                                            {{"vertices_pt", "vertices"},
                                             {"vertices_pt._0", "vertices._0.tracks"},
                                             {"vertices_pt._0._0", "vertices._0.tracks._0.pt"}});
   Project<std::vector<Size32>>(model, "vertices_n",
                                {{"vertices_n", "vertices"}, {"vertices_n._0", "vertices._0.tracks"}});
   Project<std::vector<float>>(model, "pairs_second", {{"pairs_second", "pairs"}, {"pairs_second._0", "pairs._0._1"}});
   Project<std::vector<float>>(model, "points_y", {{"points_y", "points"}, {"points_y._0", "points._0.y"}});
   WriteRecipe(std::move(r), "untyped", path, 26, 11, options, 82);
}

} // namespace fb

#endif
