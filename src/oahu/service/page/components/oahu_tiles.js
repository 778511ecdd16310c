// Items as tiles that can be searched for and marked, with the pointer or the keyboard.
import Thumbnail from "oahu_thumbnail";

const FEEDBACK = { similar: "= alike", dissimilar: "≠ not alike" };

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["search", "mark", "compare", "more"],
  data: () => ({ focused: null, buttons: {}, FEEDBACK }),
  computed: {
    content() {
      return JSON.parse(this.data);
    },
    current() {
      const exists = this.content.items.some((item) => item.key === this.focused);
      return exists ? this.focused : this.content.items[0]?.key;
    },
  },
  template: `
    <div class="tiles-part">
      <TransitionGroup tag="ul" name="tile" class="tiles" :class="content.mode" :aria-label="content.title">
        <li v-for="item in content.items" :key="item.key" class="tile" :class="item.feedback" :data-key="item.key">
          <button type="button" class="image" :ref="(element) => register(item.key, element)" :aria-label="description(item)"
                  :tabindex="item.key === current ? 0 : -1" @focus="focused = item.key" @click="$emit('search', item.key)">
            <Thumbnail :item="item"/>
            <span v-if="item.rank" class="rank">{{ item.rank }}</span>
            <span v-if="item.moved" :key="content.update + ':' + item.moved" class="moved" :class="item.moved > 0 ? 'up' : 'down'">
              {{ item.moved > 0 ? '▲' : '▼' }}{{ Math.abs(item.moved) }}</span>
            <span v-if="item.is_new" :key="content.update" class="moved up">new</span>
            <span v-if="item.feedback" class="badge">{{ FEEDBACK[item.feedback] }}</span>
          </button>
          <div class="under">
            <span v-if="item.label" class="label" :title="item.label">{{ item.label }}</span>
            <span class="key" :title="item.key">{{ item.key }}</span>
            <span v-if="item.value" class="value" :title="item.exact">{{ item.value }}</span>
          </div>
          <div v-if="content.mode === 'results'" class="marks">
            <button type="button" class="mark similar" :disabled="!content.may_mark" :title="content.may_mark ? 'Alike (a)' : content.reason"
                    :tabindex="item.key === current ? 0 : -1" :aria-pressed="item.feedback === 'similar'"
                    :aria-label="'Alike: ' + item.key" @click="$emit('mark', item.key, true)">=</button>
            <button type="button" class="mark dissimilar" :disabled="!content.may_mark" :title="content.may_mark ? 'Not alike (n)' : content.reason"
                    :tabindex="item.key === current ? 0 : -1" :aria-pressed="item.feedback === 'dissimilar'"
                    :aria-label="'Not alike: ' + item.key" @click="$emit('mark', item.key, false)">≠</button>
            <button type="button" class="mark compare" title="Compare with the query (c)"
                    :tabindex="item.key === current ? 0 : -1" :aria-label="'Compare with the query: ' + item.key"
                    @click="$emit('compare', item.key)">⇄</button>
          </div>
        </li>
      </TransitionGroup>
      <p v-if="!content.items.length && content.empty" class="empty">{{ content.empty }}</p>
      <button v-if="content.more" type="button" class="more" @click="$emit('more')">{{ content.more }}</button>
    </div>`,
  mounted() {
    document.addEventListener("keydown", this.pressed);
  },
  unmounted() {
    document.removeEventListener("keydown", this.pressed);
  },
  beforeUpdate() {
    this.hadFocus = this.$el.contains(document.activeElement) && document.activeElement.classList.contains("image");
  },
  updated() {
    // An element loses the focus when it moves in the document. Restore it.
    if (this.hadFocus && !this.$el.contains(document.activeElement)) this.focus(this.current, true);
  },
  methods: {
    register(key, element) {
      if (element) this.buttons[key] = element;
      else delete this.buttons[key];
    },
    description(item) {
      const feedback = item.feedback ? `, marked as ${item.feedback === "similar" ? "alike" : "not alike"}` : "";
      const rank = item.rank ? `${item.rank}: ` : "";
      return `${rank}${item.key}${item.label ? `, ${item.label}` : ""}${feedback}. Search for similar items`;
    },
    focus(key, preventScroll = false) {
      this.focused = key;
      this.buttons[key]?.focus({ preventScroll });
    },
    columns() {
      const tops = [...this.$el.querySelectorAll(".tile")].map((tile) => tile.offsetTop);
      return Math.max(1, tops.filter((top) => top === tops[0]).length);
    },
    pressed(event) {
      const inside = this.$el.contains(document.activeElement);
      const free = document.activeElement === document.body && this.content.mode === "results";
      if (this.$el.offsetParent === null || event.ctrlKey || event.metaKey || event.altKey) return;
      if (!(inside || free) || !this.content.items.length || document.querySelector(".q-dialog")) return;
      const handled = this.move(event.key, inside) || (this.content.mode === "results" && this.mark(event.key, inside));
      if (handled) event.preventDefault();
    },
    move(pressed, inside) {
      const keys = this.content.items.map((item) => item.key);
      const position = keys.indexOf(this.current);
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() };
      let target = { Home: 0, End: keys.length - 1 }[pressed] ?? position + steps[pressed];
      if (Number.isNaN(target)) return false;
      if (!inside) target = position; // the first press only sets the focus
      this.focus(keys[Math.min(keys.length - 1, Math.max(0, target))]);
      return true;
    },
    mark(pressed, inside) {
      if (!inside) return false;
      const same = { a: true, "+": true, "=": true, n: false, "-": false }[pressed];
      if (pressed === "c") this.$emit("compare", this.current);
      else if (same === undefined) return false;
      else if (this.content.may_mark) {
        const marked = this.current;
        this.focus(this.nextUnmarked(marked), true);
        this.$emit("mark", marked, same);
      }
      return true;
    },
    nextUnmarked(key) {
      const keys = this.content.items.filter((item) => !item.feedback || item.key === key).map((item) => item.key);
      const position = keys.indexOf(key);
      return keys[position + 1] ?? keys[position - 1] ?? key;
    },
  },
};
