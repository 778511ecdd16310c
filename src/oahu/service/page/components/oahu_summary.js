// How much was learned, and the weights as one line.
export default {
  props: { data: String },
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <div class="pulse" aria-hidden="true"><span>{{ d.constraints.toLocaleString('en') }} learned</span>
      <div class="mix"><i v-for="part in d.parts" :key="part.name"
        :style="{ width: 100 * part.now + '%', background: 'var(--part-' + part.tint + ')' }"></i></div></div>`,
};
