// The catalogue as a map: where items were before anything was learned, and where they are now.
import Thumbnail from "oahu_thumbnail";

// Ten colours that people with any colour vision tell apart (Petroff 2021); the rest is grey.
const COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd", "#94a4a2"];
const OTHER = "#9a9a9a";
const NEAR = 0.06; // how near the pointer has to be

const Dots = {
  props: { points: Array, colours: Array, bright: Number, groups: Array },
  template: `
    <g><circle v-for="(point, at) in points" :key="at" r="0.012" :fill="colours[at]"
       :class="{ dim: bright !== null && groups[at] !== bright }"
       :style="{ transform: 'translate(' + point[0] + 'px,' + -point[1] + 'px)' }"/></g>`,
};

export default {
  components: { Thumbnail, Dots },
  props: { data: String, after: String },
  emits: ["search"],
  data: () => ({ at: null, wide: true, now: true, bright: null }),
  computed: {
    d() {
      return JSON.parse(this.data);
    },
    moved() {
      return JSON.parse(this.after || "[]");
    },
    names() {
      const shown = this.d.labels.length > COLOURS.length ? this.d.labels.slice(0, COLOURS.length - 1) : this.d.labels;
      return shown.map((label, at) => ({ label, at, colour: COLOURS[at] }));
    },
    colours() {
      return this.d.groups.map((group) => this.names[group]?.colour ?? OTHER);
    },
    panels() {
      const both = [["Before", this.d.before], ["After", this.moved]];
      return this.wide ? both : [both[this.now ? 1 : 0]];
    },
    item() {
      const [key, thumb] = this.d.items[this.at];
      const src = thumb ? this.d.base + encodeURIComponent(key) : null;
      return { key, src, label: this.d.labels[this.d.groups[this.at]] };
    },
  },
  template: `
    <section class="atlas" aria-label="Map of the catalogue">
      <p v-if="d.message" class="empty">{{ d.message }}</p>
      <template v-else>
        <header>
          <p>{{ d.items.length.toLocaleString('en') }} of {{ d.total.toLocaleString('en') }} items. Near is alike: before
            anything was learned, and by the metric as it is now.</p>
          <div v-if="!wide" class="chips" role="group" aria-label="Before or after">
            <button type="button" class="chip" :aria-pressed="!now" @click="now = false">Before</button>
            <button type="button" class="chip" :aria-pressed="now" @click="now = true">After</button>
          </div>
        </header>
        <div class="panels">
          <figure v-for="[title, points] in panels" :key="wide ? title : 'one'">
            <figcaption>{{ title }}</figcaption>
            <svg viewBox="-1.05 -1.05 2.1 2.1" role="img" :aria-label="title + ': a map of the catalogue'" :data-panel="title"
                 @pointermove="look($event, points)" @pointerleave="at = null" @click="search($event, points)">
              <Dots :points="points" :colours="colours" :groups="d.groups" :bright="bright"/>
              <circle v-if="d.query !== null && points[d.query]" class="query" r="0.035" :cx="points[d.query][0]" :cy="-points[d.query][1]"/>
              <circle v-if="at !== null && points[at]" class="ring" r="0.028" :cx="points[at][0]" :cy="-points[at][1]"/>
            </svg>
          </figure>
          <div v-if="at !== null" class="hover" aria-hidden="true"><i><Thumbnail :item="item"/></i>
            <span class="key">{{ item.key }}</span><span v-if="item.label" class="label">{{ item.label }}</span></div>
        </div>
        <ul v-if="names.length" class="legend" aria-label="Labels">
          <li v-for="one in names" :key="one.at" @pointerenter="bright = one.at" @pointerleave="bright = null">
            <i :style="{ background: one.colour }"></i>{{ one.label }}</li>
          <li v-if="names.length < d.labels.length"><i :style="{ background: '${OTHER}' }"></i>others</li>
        </ul>
      </template>
    </section>`,
  mounted() {
    this.sizes = new ResizeObserver(([entry]) => (this.wide = entry.contentRect.width >= 680));
    this.sizes.observe(this.$el);
  },
  unmounted() {
    this.sizes.disconnect();
  },
  methods: {
    nearest(event, points) {
      const box = event.currentTarget.getBoundingClientRect();
      const x = -1.05 + (2.1 * (event.clientX - box.left)) / box.width;
      const y = 1.05 - (2.1 * (event.clientY - box.top)) / box.height;
      let [best, far] = [null, NEAR ** 2];
      points.forEach(([px, py], at) => {
        const apart = (px - x) ** 2 + (py - y) ** 2;
        if (apart < far) [best, far] = [at, apart];
      });
      return best;
    },
    look(event, points) {
      this.at = this.nearest(event, points);
    },
    search(event, points) {
      const at = this.nearest(event, points);
      if (at !== null) this.$emit("search", this.d.items[at][0]);
    },
  },
};
