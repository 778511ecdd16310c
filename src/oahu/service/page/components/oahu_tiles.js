// Items as tiles: to look at, to search for, and to mark; with the pointer or with keys.
import Thumbnail from "oahu_thumbnail";

const SAID = { alike: "= alike", unlike: "≠ not alike" };

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["search", "mark", "compare", "more"],
  data: () => ({ at: null, faces: {}, SAID }),
  computed: {
    d() {
      return JSON.parse(this.data);
    },
    here() {
      const there = this.d.items.some((item) => item.key === this.at);
      return there ? this.at : this.d.items[0]?.key;
    },
  },
  template: `
    <div class="tiles-part">
      <TransitionGroup tag="ul" name="tile" class="tiles" :class="d.mode" :aria-label="d.title">
        <li v-for="item in d.items" :key="item.key" class="tile" :class="item.said" :data-key="item.key">
          <button type="button" class="face" :ref="(el) => keep(item.key, el)" :aria-label="spoken(item)"
                  :tabindex="item.key === here ? 0 : -1" @focus="at = item.key" @click="$emit('search', item.key)">
            <Thumbnail :item="item"/>
            <span v-if="item.rank" class="rank">{{ item.rank }}</span>
            <span v-if="item.moved" :key="d.turn + ':' + item.moved" class="moved" :class="item.moved > 0 ? 'up' : 'down'">
              {{ item.moved > 0 ? '▲' : '▼' }}{{ Math.abs(item.moved) }}</span>
            <span v-if="item.fresh" :key="d.turn" class="moved up">new</span>
            <span v-if="item.said" class="badge">{{ SAID[item.said] }}</span>
          </button>
          <div class="under">
            <span v-if="item.label" class="label" :title="item.label">{{ item.label }}</span>
            <span class="key" :title="item.key">{{ item.key }}</span>
            <span v-if="item.value" class="value" :title="item.exact">{{ item.value }}</span>
          </div>
          <div v-if="d.mode === 'results'" class="marks">
            <button type="button" class="mark alike" :disabled="!d.may" :title="d.may ? 'Alike (a)' : d.why"
                    :tabindex="item.key === here ? 0 : -1" :aria-pressed="item.said === 'alike'"
                    :aria-label="'Alike: ' + item.key" @click="$emit('mark', item.key, true)">=</button>
            <button type="button" class="mark unlike" :disabled="!d.may" :title="d.may ? 'Not alike (n)' : d.why"
                    :tabindex="item.key === here ? 0 : -1" :aria-pressed="item.said === 'unlike'"
                    :aria-label="'Not alike: ' + item.key" @click="$emit('mark', item.key, false)">≠</button>
            <button type="button" class="mark compare" title="Compare with what was searched for (c)"
                    :tabindex="item.key === here ? 0 : -1" :aria-label="'Compare: ' + item.key"
                    @click="$emit('compare', item.key)">⇄</button>
          </div>
        </li>
      </TransitionGroup>
      <p v-if="!d.items.length && d.empty" class="empty">{{ d.empty }}</p>
      <button v-if="d.more" type="button" class="more" @click="$emit('more')">{{ d.more }}</button>
    </div>`,
  mounted() {
    document.addEventListener("keydown", this.pressed);
  },
  unmounted() {
    document.removeEventListener("keydown", this.pressed);
  },
  beforeUpdate() {
    this.held = this.$el.contains(document.activeElement) && document.activeElement.classList.contains("face");
  },
  updated() {
    // What moves in the document loses the focus: give it back.
    if (this.held && !this.$el.contains(document.activeElement)) this.go(this.here, true);
  },
  methods: {
    keep(key, element) {
      if (element) this.faces[key] = element;
      else delete this.faces[key];
    },
    spoken(item) {
      const said = item.said ? `, said to be ${item.said === "alike" ? "alike" : "not alike"}` : "";
      const rank = item.rank ? `${item.rank}: ` : "";
      return `${rank}${item.key}${item.label ? `, ${item.label}` : ""}${said}. Search for what is like it`;
    },
    go(key, still) {
      this.at = key;
      this.faces[key]?.focus({ preventScroll: Boolean(still) });
    },
    columns() {
      const tops = [...this.$el.querySelectorAll(".tile")].map((tile) => tile.offsetTop);
      return Math.max(1, tops.filter((top) => top === tops[0]).length);
    },
    pressed(event) {
      const inside = this.$el.contains(document.activeElement);
      const free = document.activeElement === document.body && this.d.mode === "results";
      if (this.$el.offsetParent === null || event.ctrlKey || event.metaKey || event.altKey) return;
      if (!(inside || free) || !this.d.items.length || document.querySelector(".q-dialog")) return;
      const act = this.moves(event.key, inside) || (this.d.mode === "results" && this.marks(event.key, inside));
      if (act) event.preventDefault();
    },
    moves(pressed, inside) {
      const keys = this.d.items.map((item) => item.key);
      const at = keys.indexOf(this.here);
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() };
      let to = { Home: 0, End: keys.length - 1 }[pressed] ?? at + steps[pressed];
      if (Number.isNaN(to)) return false;
      if (!inside) to = at; // the first press only shows where one is
      this.go(keys[Math.min(keys.length - 1, Math.max(0, to))]);
      return true;
    },
    marks(pressed, inside) {
      if (!inside) return false;
      const same = { a: true, "+": true, "=": true, n: false, "-": false }[pressed];
      if (pressed === "c") this.$emit("compare", this.here);
      else if (same === undefined) return false;
      else if (this.d.may) {
        const marked = this.here;
        this.go(this.next(marked), true);
        this.$emit("mark", marked, same);
      }
      return true;
    },
    next(key) {
      const keys = this.d.items.filter((item) => !item.said || item.key === key).map((item) => item.key);
      const at = keys.indexOf(key);
      return keys[at + 1] ?? keys[at - 1] ?? key;
    },
  },
};
