// A map of the catalogue before and after learning.
import Thumbnail from "oahu_thumbnail";

// Ten colours that are distinguishable with any colour vision (Petroff 2021); other labels are grey.
const COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd", "#94a4a2"];
const OTHER = "#9a9a9a";
const HOVER_RADIUS = 0.06;

const Points = {
  props: { points: Array, colours: Array, highlighted: Number, groups: Array },
  template: `
    <g><circle v-for="(point, index) in points" :key="index" r="0.012" :fill="colours[index]"
       :class="{ dim: highlighted !== null && groups[index] !== highlighted }"
       :style="{ transform: 'translate(' + point[0] + 'px,' + -point[1] + 'px)' }"/></g>`,
};

export default {
  components: { Thumbnail, Points },
  props: { data: String, after: String },
  emits: ["search"],
  data: () => ({ hovered: null, isWide: true, showsAfter: true, highlighted: null }),
  computed: {
    content() {
      return JSON.parse(this.data);
    },
    pointsAfter() {
      return JSON.parse(this.after || "[]");
    },
    legend() {
      const shown = this.content.labels.length > COLOURS.length ? this.content.labels.slice(0, COLOURS.length - 1) : this.content.labels;
      return shown.map((label, group) => ({ label, group, colour: COLOURS[group] }));
    },
    colours() {
      return this.content.groups.map((group) => this.legend[group]?.colour ?? OTHER);
    },
    panels() {
      const both = [["Before", this.content.before], ["After", this.pointsAfter]];
      return this.isWide ? both : [both[this.showsAfter ? 1 : 0]];
    },
    item() {
      const [key, hasThumbnail] = this.content.items[this.hovered];
      const src = hasThumbnail ? this.content.base + encodeURIComponent(key) : null;
      return { key, src, label: this.content.labels[this.content.groups[this.hovered]] };
    },
  },
  template: `
    <section class="map" aria-label="Map of the catalogue">
      <p v-if="content.message" class="empty">{{ content.message }}</p>
      <template v-else>
        <header>
          <p>{{ content.items.length.toLocaleString('en') }} of {{ content.total.toLocaleString('en') }} items. Similar items are
            close together. The maps show the metric before learning and the current metric.</p>
          <div v-if="!isWide" class="chips" role="group" aria-label="Before or after">
            <button type="button" class="chip" :aria-pressed="!showsAfter" @click="showsAfter = false">Before</button>
            <button type="button" class="chip" :aria-pressed="showsAfter" @click="showsAfter = true">After</button>
          </div>
        </header>
        <div class="panels">
          <figure v-for="[title, points] in panels" :key="isWide ? title : 'one'">
            <figcaption>{{ title }}</figcaption>
            <svg viewBox="-1.05 -1.05 2.1 2.1" role="img" :aria-label="'Map of the catalogue ' + title.toLowerCase() + ' learning'" :data-panel="title"
                 @pointermove="hover($event, points)" @pointerleave="hovered = null" @click="search($event, points)">
              <Points :points="points" :colours="colours" :groups="content.groups" :highlighted="highlighted"/>
              <circle v-if="content.query !== null && points[content.query]" class="query" r="0.035" :cx="points[content.query][0]" :cy="-points[content.query][1]"/>
              <circle v-if="hovered !== null && points[hovered]" class="ring" r="0.028" :cx="points[hovered][0]" :cy="-points[hovered][1]"/>
            </svg>
          </figure>
          <div v-if="hovered !== null" class="hover" aria-hidden="true"><i><Thumbnail :item="item"/></i>
            <span class="key">{{ item.key }}</span><span v-if="item.label" class="label">{{ item.label }}</span></div>
        </div>
        <ul v-if="legend.length" class="legend" aria-label="Labels">
          <li v-for="entry in legend" :key="entry.group" @pointerenter="highlighted = entry.group" @pointerleave="highlighted = null">
            <i :style="{ background: entry.colour }"></i>{{ entry.label }}</li>
          <li v-if="legend.length < content.labels.length"><i :style="{ background: '${OTHER}' }"></i>others</li>
        </ul>
      </template>
    </section>`,
  mounted() {
    this.resizeObserver = new ResizeObserver(([entry]) => (this.isWide = entry.contentRect.width >= 680));
    this.resizeObserver.observe(this.$el);
  },
  unmounted() {
    this.resizeObserver.disconnect();
  },
  methods: {
    nearest(event, points) {
      const box = event.currentTarget.getBoundingClientRect();
      const x = -1.05 + (2.1 * (event.clientX - box.left)) / box.width;
      const y = 1.05 - (2.1 * (event.clientY - box.top)) / box.height;
      let [best, smallest] = [null, HOVER_RADIUS ** 2];
      points.forEach(([px, py], index) => {
        const distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < smallest) [best, smallest] = [index, distance];
      });
      return best;
    },
    hover(event, points) {
      this.hovered = this.nearest(event, points);
    },
    search(event, points) {
      const index = this.nearest(event, points);
      if (index !== null) this.$emit("search", this.content.items[index][0]);
    },
  },
};
